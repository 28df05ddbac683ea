// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/kube-annex/annex/apis/features"
	"github.com/kube-annex/annex/apis/features/validation"
)

// reports serves featurereports: each is merged into the Features it names and answered, and none is stored.
type reports struct {
	features *genericregistry.Store
	status   rest.Updater
}

var (
	_ rest.Creater              = &reports{}
	_ rest.Scoper               = &reports{}
	_ rest.SingularNameProvider = &reports{}
)

// errFull is why a use cannot be listed at a feature that has as many as it may.
var errFull = errors.New("the feature lists as many uses as it can")

func newReports(store *genericregistry.Store, status rest.Storage) *reports {
	return &reports{features: store, status: status.(rest.Updater)}
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
// listed already costs no write. One that finds no room is refused after all others were recorded, so that a feature that
// is full does not hold up the rest.
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
	known, err := r.known(ctx)
	if err != nil {
		return nil, err
	}
	now := metav1.Now()
	report.Status = features.FeatureReportStatus{}
	var refused field.ErrorList
	for i := range report.Spec.Features {
		reported := &report.Spec.Features[i]
		feature := known[reported.Name]
		if feature == nil || findUse(feature, report, reported) == nil {
			feature, err = r.record(ctx, report, reported, now, options.DryRun)
			if errors.Is(err, errFull) {
				refused = append(refused, field.Forbidden(field.NewPath("spec", "features").Index(i), fmt.Sprintf(
					"Feature %s lists %d uses, which is the most it can; remove those that are over from its status.uses", reported.Name, validation.MaxUses)))
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		report.Status.Features = append(report.Status.Features, features.FeatureAnswer{
			Name: reported.Name, State: feature.Status.State, UseEvaluationTime: feature.Status.UseEvaluationTime,
		})
	}
	if len(refused) > 0 {
		return nil, apierrors.NewInvalid(features.Kind("FeatureReport"), report.Name, refused)
	}
	return report, nil
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

// record lists the use at the feature, and makes the feature first where there is none.
func (r *reports) record(ctx context.Context, report *features.FeatureReport, reported *features.ReportedFeature, now metav1.Time, dryRun []string) (*features.Feature, error) {
	feature := &features.Feature{}
	feature.Name, feature.Namespace = reported.Name, report.Namespace
	_, err := r.features.Create(ctx, feature.DeepCopy(), rest.ValidateAllObjectFunc, &metav1.CreateOptions{DryRun: dryRun})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	if err == nil && dryrun.IsDryRun(dryRun) {
		return feature, nil
	}
	add := func(_ context.Context, _, current runtime.Object) (runtime.Object, error) {
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
	}
	out, _, err := r.status.Update(ctx, reported.Name, rest.DefaultUpdatedObjectInfo(nil, add),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: dryRun})
	if err != nil {
		return nil, err
	}
	return out.(*features.Feature), nil
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
