// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/internal/listbeforewatch"
)

// FeatureOn holds while the Feature exists and its state is On.
func FeatureOn(client versioned.Interface, namespace, name string) leadership.Condition {
	return func(ctx context.Context, report func(bool)) error {
		features := client.FeaturesV1alpha1().Features(namespace)
		only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		source := listbeforewatch.ListWatch{ListWatch: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = only
				return features.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = only
				return features.Watch(ctx, options)
			},
		}}
		last := changes{report: report}
		state := func(obj any) {
			feature, ok := obj.(*v1alpha1.Feature)
			last.set(ok && feature.Status.State == v1alpha1.StateOn)
		}
		_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: source,
			ObjectType:    &v1alpha1.Feature{},
			Handler: cache.ResourceEventHandlerFuncs{
				AddFunc:    state,
				UpdateFunc: func(_, obj any) { state(obj) },
				DeleteFunc: func(any) { last.set(false) },
			},
		})
		controller.RunWithContext(ctx)
		return nil
	}
}
