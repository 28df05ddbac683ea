// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authorization

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/kube-annex/annex/registry/resource"
)

// reviews serves one kind of question: it is created, and the answer is its status.
type reviews[T resource.Object] struct {
	singular   string
	namespaced bool
	empty      func() T
	// answer fills in the status; the error is an API status.
	answer func(ctx context.Context, review T) error
}

var (
	_ rest.Creater              = &reviews[*authorizationv1.SubjectAccessReview]{}
	_ rest.Scoper               = &reviews[*authorizationv1.SubjectAccessReview]{}
	_ rest.SingularNameProvider = &reviews[*authorizationv1.SubjectAccessReview]{}
)

func (r *reviews[T]) New() runtime.Object     { return r.empty() }
func (r *reviews[T]) Destroy()                {}
func (r *reviews[T]) NamespaceScoped() bool   { return r.namespaced }
func (r *reviews[T]) GetSingularName() string { return r.singular }

// served lists the question under its plural.
func (r *reviews[T]) served() resource.Served {
	plural := r.singular + "s"
	return resource.Served{
		Resource: plural, Types: []runtime.Object{r.empty()},
		Install: func(group *resource.Group) error {
			group.Add(plural, r)
			return nil
		},
	}
}

// Create answers the review.
func (r *reviews[T]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(T)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a %s: %T", r.singular, obj))
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	if err := r.answer(ctx, review); err != nil {
		return nil, err
	}
	return review, nil
}

func subjectAccess(access authorizer.Authorizer) func(context.Context, *authorizationv1.SubjectAccessReview) error {
	return func(ctx context.Context, review *authorizationv1.SubjectAccessReview) error {
		errs := append(validateSubject(review.Spec), validateAttributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)...)
		errs = append(errs, validateMetadata(review.ObjectMeta)...)
		if err := invalid("SubjectAccessReview", errs); err != nil {
			return err
		}
		review.Status = judge(ctx, access, subjectOf(review.Spec), review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
		return nil
	}
}

func localSubjectAccess(access authorizer.Authorizer) func(context.Context, *authorizationv1.LocalSubjectAccessReview) error {
	return func(ctx context.Context, review *authorizationv1.LocalSubjectAccessReview) error {
		errs := append(validateSubject(review.Spec), validateAttributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)...)
		metadata := review.ObjectMeta
		metadata.Namespace = ""
		errs = append(errs, validateMetadata(metadata)...)
		namespace := request.NamespaceValue(ctx)
		if path := review.Spec.NonResourceAttributes; path != nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "nonResourceAttributes"), path, "disallowed on this kind of request"))
		}
		if attributes := review.Spec.ResourceAttributes; attributes != nil && attributes.Namespace != namespace {
			errs = append(errs, field.Invalid(field.NewPath("spec", "resourceAttributes", "namespace"), attributes.Namespace, "must match metadata.namespace"))
		}
		if err := invalid("LocalSubjectAccessReview", errs); err != nil {
			return err
		}
		review.Status = judge(ctx, access, subjectOf(review.Spec), review.Spec.ResourceAttributes, nil)
		return nil
	}
}

func selfSubjectAccess(access authorizer.Authorizer) func(context.Context, *authorizationv1.SelfSubjectAccessReview) error {
	return func(ctx context.Context, review *authorizationv1.SelfSubjectAccessReview) error {
		errs := validateAttributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
		errs = append(errs, validateMetadata(review.ObjectMeta)...)
		if err := invalid("SelfSubjectAccessReview", errs); err != nil {
			return err
		}
		caller, ok := request.UserFrom(ctx)
		if !ok {
			return apierrors.NewBadRequest("no user present on request")
		}
		review.Status = judge(ctx, access, caller, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
		return nil
	}
}

func judge(ctx context.Context, access authorizer.Authorizer, who user.Info, res *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	attributes := attributesOf(who, res, path)
	decision, reason, err := access.Authorize(ctx, attributes)
	status := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow,
		Denied:  decision == authorizer.DecisionDeny,
		Reason:  reason,
	}
	var notes []string
	if err != nil {
		notes = append(notes, err.Error())
	}
	fields, err := attributes.GetFieldSelector()
	notes = appendIgnored(notes, "fieldSelector", len(fields), err)
	labels, err := attributes.GetLabelSelector()
	notes = appendIgnored(notes, "labelSelector", len(labels), err)
	status.EvaluationError = strings.Join(notes, "; ")
	return status
}

// appendIgnored adds that what was asked for was not as narrow as it was meant to be.
func appendIgnored(notes []string, selector string, left int, err error) []string {
	if err == nil {
		return notes
	}
	how := "ignored"
	if left > 0 {
		how = "partially ignored"
	}
	return append(notes, "spec.resourceAttributes."+selector+" "+how+" due to parse error")
}

func selfSubjectRules(rules authorizer.RuleResolver) func(context.Context, *authorizationv1.SelfSubjectRulesReview) error {
	return func(ctx context.Context, review *authorizationv1.SelfSubjectRulesReview) error {
		if review.Spec.Namespace == "" {
			return apierrors.NewBadRequest("no namespace on request")
		}
		caller, ok := request.UserFrom(ctx)
		if !ok {
			return apierrors.NewBadRequest("no user present on request")
		}
		resources, paths, incomplete, err := rules.RulesFor(ctx, caller, review.Spec.Namespace)
		// Both lists are required fields: empty, not null.
		review.Status = authorizationv1.SubjectRulesReviewStatus{
			ResourceRules:    []authorizationv1.ResourceRule{},
			NonResourceRules: []authorizationv1.NonResourceRule{},
			Incomplete:       incomplete,
		}
		for _, rule := range resources {
			review.Status.ResourceRules = append(review.Status.ResourceRules, authorizationv1.ResourceRule{
				Verbs: rule.GetVerbs(), APIGroups: rule.GetAPIGroups(), Resources: rule.GetResources(), ResourceNames: rule.GetResourceNames(),
			})
		}
		for _, rule := range paths {
			review.Status.NonResourceRules = append(review.Status.NonResourceRules, authorizationv1.NonResourceRule{
				Verbs: rule.GetVerbs(), NonResourceURLs: rule.GetNonResourceURLs(),
			})
		}
		if err != nil {
			review.Status.EvaluationError = err.Error()
		}
		return nil
	}
}
