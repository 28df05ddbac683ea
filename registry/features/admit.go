// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/kube-annex/annex/apis/features"
)

// featureWriter writes Features on behalf of a report. Each write is admitted as that of the Feature, by the user of the report.
type featureWriter struct {
	features rest.Creater
	status   rest.Updater
	version  schema.GroupVersion
	admit    admission.Interface
	objects  admission.ObjectInterfaces
}

func (w *featureWriter) attributes(ctx context.Context, feature, old runtime.Object, name, subresource string, operation admission.Operation, options runtime.Object, dryRun []string) admission.Attributes {
	user, _ := genericapirequest.UserFrom(ctx)
	return admission.NewAttributesRecord(feature, old, w.version.WithKind("Feature"), genericapirequest.NamespaceValue(ctx), name,
		w.version.WithResource("features"), subresource, operation, options, dryrun.IsDryRun(dryRun), user)
}

func (w *featureWriter) mutate(ctx context.Context, attributes admission.Attributes) error {
	if plugin, ok := w.admit.(admission.MutationInterface); ok && plugin.Handles(attributes.GetOperation()) {
		return plugin.Admit(ctx, attributes, w.objects)
	}
	return nil
}

func (w *featureWriter) create(ctx context.Context, feature *features.Feature, dryRun []string) error {
	options := &metav1.CreateOptions{TypeMeta: optionsType("CreateOptions"), DryRun: dryRun}
	attributes := w.attributes(ctx, feature, nil, feature.Name, "", admission.Create, options, dryRun)
	if err := w.mutate(ctx, attributes); err != nil {
		return err
	}
	_, err := w.features.Create(ctx, feature, rest.AdmissionToValidateObjectFunc(w.admit, attributes, w.objects), options)
	return err
}

func (w *featureWriter) updateStatus(ctx context.Context, name string, change rest.TransformFunc, dryRun []string) (*features.Feature, error) {
	options := &metav1.UpdateOptions{TypeMeta: optionsType("UpdateOptions"), DryRun: dryRun}
	mutate := func(ctx context.Context, feature, old runtime.Object) (runtime.Object, error) {
		return feature, w.mutate(ctx, w.attributes(ctx, feature, old, name, "status", admission.Update, options, dryRun))
	}
	attributes := w.attributes(ctx, nil, nil, name, "status", admission.Update, options, dryRun)
	out, _, err := w.status.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, change, mutate), rest.ValidateAllObjectFunc,
		rest.AdmissionToValidateObjectUpdateFunc(w.admit, attributes, w.objects), false, options)
	if err != nil {
		return nil, err
	}
	return out.(*features.Feature), nil
}

func optionsType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: kind}
}
