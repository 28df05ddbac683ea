// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

var _ rest.DeclarativeValidationStrategy = strategy[Object]{}

// ValidateDeclaratively implements rest.DeclarativeValidationStrategy. It runs the rules that come with metadata's Go type, and takes out what
// the libraries found by hand for the same reasons, which for updates they do twice.
func (s strategy[T]) ValidateDeclaratively(ctx context.Context, obj, old runtime.Object, byHand field.ErrorList, what operation.Type, _ rest.DeclarativeValidationConfig) field.ErrorList {
	meta, oldMeta := metaOf(obj), metaOf(old)
	var declared field.ErrorList
	if oldMeta == nil || !equality.Semantic.DeepEqual(meta, oldMeta) {
		declared = metavalidation.Validate_ObjectMeta(ctx, operation.Operation{Type: what}, field.NewPath("metadata"), meta, oldMeta)
	}
	declared = validate.FilterEnforcedDeclarativeErrors(ctx, declared, true)
	return append(validate.FilterCoveredHandwrittenErrors(ctx, byHand.MarkFromImperative(), declared, true), declared...)
}

// DeclarativeValidationConfig implements rest.DeclarativeValidationStrategy.
func (s strategy[T]) DeclarativeValidationConfig(context.Context, runtime.Object, runtime.Object) rest.DeclarativeValidationConfig {
	return rest.DeclarativeValidationConfig{}
}

// metaOf returns the metadata of an object of a kind, or nil for no object.
func metaOf(obj runtime.Object) *metav1.ObjectMeta {
	if accessor, ok := obj.(metav1.ObjectMetaAccessor); ok {
		meta, _ := accessor.GetObjectMeta().(*metav1.ObjectMeta)
		return meta
	}
	return nil
}
