// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/utils/lru"

	"github.com/kube-annex/annex/apis/features"
	"github.com/kube-annex/annex/apis/features/validation"
	"github.com/kube-annex/annex/registry/resource"
)

// Reporter is a process that sends reports.
type Reporter struct {
	Namespace, Component, Version, Instance string
	// User is who sent the report, and Observed what it says of itself.
	User, Observed string
}

// Reporters keeps the signs of life of reporters.
type Reporters interface {
	// Renew notes that the process is running.
	Renew(ctx context.Context, reporter Reporter) error
	// Remove notes that it has ended.
	Remove(ctx context.Context, reporter Reporter) error
}

// reports serves featurereports: each is merged into the Features it names and answered, and none is stored.
type reports struct {
	features *genericregistry.Store
	writer   *featureWriter
	// reporters is nil where nobody waits for reporters.
	reporters Reporters

	newFeatures, newProcesses *userLimit
	// processes are Reporters without Observed that have reported before.
	processes *lru.Cache
}

var (
	_ rest.Creater              = &reports{}
	_ rest.Scoper               = &reports{}
	_ rest.SingularNameProvider = &reports{}
)

// errFull is why a use cannot be listed at a feature that has as many as it may.
var errFull = errors.New("the feature lists as many uses as it can")

func newReports(store *genericregistry.Store, group *resource.Group, reporters Reporters) *reports {
	return &reports{
		features: store, reporters: reporters,
		writer: &featureWriter{
			features: group.Storage("features").(rest.Creater), status: group.Storage("features/status").(rest.Updater),
			version: group.Version(), admit: admission.WithAudit(group.Admission()), objects: admission.NewObjectInterfacesFromScheme(group.Scheme()),
		},
		newFeatures:  newUserLimit("Features", featuresPerMinute, featuresPerMinute),
		newProcesses: newUserLimit("processes", processesPerMinute, processesAtOnce),
		processes:    lru.New(trackedProcesses),
	}
}

// New implements rest.Storage.
func (r *reports) New() runtime.Object { return &features.FeatureReport{} }

// Destroy implements rest.Storage; the store belongs to features.
func (r *reports) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (r *reports) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (r *reports) GetSingularName() string { return "featurereport" }

// Create implements rest.Creater. A feature that nobody announced yet becomes a Feature without a state; a use that is
// listed already costs no write. A use that cannot be recorded is refused after all others were, so that one Feature does not hold up the
// rest; the report is no sign of life then.
func (r *reports) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	report := obj.(*features.FeatureReport)
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(genericapirequest.NamespaceValue(ctx), report); err != nil {
		return nil, err
	}
	if errs := validation.ValidateFeatureReport(report); len(errs) > 0 {
		return nil, apierrors.NewInvalid(features.Kind("FeatureReport"), report.Name, errs)
	}
	if validate != nil {
		if err := validate(ctx, report.DeepCopy()); err != nil {
			return nil, err
		}
	}
	report.CreationTimestamp = metav1.Now()
	if err := r.recordAll(ctx, report, options.DryRun); err != nil {
		return nil, err
	}
	if err := r.renew(ctx, report, options.DryRun); err != nil {
		return nil, err
	}
	return report, nil
}

// recordAll records the uses, and answers where the Features stand.
func (r *reports) recordAll(ctx context.Context, report *features.FeatureReport, dryRun []string) error {
	report.Status = features.FeatureReportStatus{}
	if len(report.Spec.Features) == 0 {
		return nil
	}
	known, err := r.known(ctx)
	if err != nil {
		return err
	}
	var refused field.ErrorList
	var denied error
	for i := range report.Spec.Features {
		reported := &report.Spec.Features[i]
		feature := known[reported.Name]
		if feature == nil || findUse(feature, report, reported) == nil {
			feature, err = r.record(ctx, report, reported, feature == nil, len(known), dryRun)
			switch {
			case errors.Is(err, errFull):
				refused = append(refused, field.Forbidden(field.NewPath("spec", "features").Index(i), fmt.Sprintf(
					"Feature %s lists %d uses, which is the most it can; remove those that are over from its status.uses", reported.Name, validation.MaxUses)))
				continue
			case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsTooManyRequests(err):
				denied = cmp.Or(denied, err)
				continue
			case err != nil:
				return err
			}
			known[reported.Name] = feature
		}
		report.Status.Features = append(report.Status.Features, features.FeatureAnswer{
			Name: reported.Name, State: feature.Status.State, UseEvaluationTime: feature.Status.UseEvaluationTime,
		})
	}
	if denied == nil && len(refused) > 0 {
		denied = apierrors.NewInvalid(features.Kind("FeatureReport"), report.Name, refused)
	}
	return denied
}

// renew takes the report as the sign of life of a process.
func (r *reports) renew(ctx context.Context, report *features.FeatureReport, dryRun []string) error {
	if r.reporters == nil || dryrun.IsDryRun(dryRun) {
		return nil
	}
	process := Reporter{
		Namespace: report.Namespace, Component: report.Spec.Component, Version: report.Spec.Version, Instance: report.Spec.Instance, User: userName(ctx),
	}
	var err error
	if report.Spec.Stopping {
		err = r.reporters.Remove(ctx, process)
	} else {
		if _, ok := r.processes.Get(process); !ok {
			if err = r.newProcesses.take(ctx); err != nil {
				return err
			}
			r.processes.Add(process, nil)
		}
		process.Observed = report.Spec.Observed
		err = r.reporters.Renew(ctx, process)
	}
	if err != nil {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("record the sign of life of %s/%s: %v; the uses are recorded, try again", process.Component, process.Instance, err))
	}
	return nil
}

// known reads the namespace's Features, from the watch cache once that has caught up with etcd.
func (r *reports) known(ctx context.Context) (map[string]*features.Feature, error) {
	out, err := r.features.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	list := out.(*features.FeatureList)
	byName := make(map[string]*features.Feature, len(list.Items))
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return byName, nil
}

// record lists the use at the feature, which it creates first if it is unknown.
func (r *reports) record(ctx context.Context, report *features.FeatureReport, reported *features.ReportedFeature, unknown bool, present int, dryRun []string) (*features.Feature, error) {
	feature := &features.Feature{}
	feature.Name, feature.Namespace = reported.Name, report.Namespace
	if unknown {
		if present >= maxFeatures {
			return nil, apierrors.NewForbidden(features.Resource("features"), reported.Name, fmt.Errorf(
				"the namespace has %d Features, and reports add no more; delete those that nobody needs", present))
		}
		if !dryrun.IsDryRun(dryRun) {
			if err := r.newFeatures.take(ctx); err != nil {
				return nil, err
			}
		}
		err := r.writer.create(ctx, feature.DeepCopy(), dryRun)
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		if err == nil && dryrun.IsDryRun(dryRun) {
			return feature, nil
		}
	}
	now := report.CreationTimestamp
	return r.writer.updateStatus(ctx, reported.Name, func(_ context.Context, _, current runtime.Object) (runtime.Object, error) {
		next := current.DeepCopyObject().(*features.Feature)
		if findUse(next, report, reported) != nil {
			return next, nil
		}
		if len(next.Status.Uses) >= validation.MaxUses {
			return nil, errFull
		}
		describe(next, report, reported)
		next.Status.Uses = append(next.Status.Uses, features.Use{
			Component: report.Spec.Component, Version: report.Spec.Version, Value: reported.Value,
			Reporter: report.Spec.Instance, ReportTime: &now,
		})
		return next, nil
	}, dryRun)
}

// describe notes what the report knows of a feature that no server has announced; the highest version is believed.
func describe(feature *features.Feature, report *features.FeatureReport, reported *features.ReportedFeature) {
	status := &feature.Status
	if status.State != "" || !newer(report.Spec.Version, status.Version) {
		return
	}
	status.Version, status.Default, status.Stability = report.Spec.Version, reported.Default, reported.Stability
}

func newer(candidate, current string) bool {
	if current == "" {
		return true
	}
	c, err := version.ParseGeneric(candidate)
	if err != nil {
		return false
	}
	than, err := version.ParseGeneric(current)
	return err != nil || than.LessThan(c)
}

func findUse(feature *features.Feature, report *features.FeatureReport, reported *features.ReportedFeature) *features.Use {
	for i := range feature.Status.Uses {
		use := &feature.Status.Uses[i]
		if use.Component == report.Spec.Component && use.Version == report.Spec.Version && use.Value == reported.Value {
			return use
		}
	}
	return nil
}
