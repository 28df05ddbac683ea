// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// selfSubjectReviews tells callers who they are (kubectl auth whoami).
type selfSubjectReviews struct{}

var (
	_ rest.Creater              = selfSubjectReviews{}
	_ rest.Scoper               = selfSubjectReviews{}
	_ rest.SingularNameProvider = selfSubjectReviews{}
)

func (selfSubjectReviews) New() runtime.Object     { return &authenticationv1.SelfSubjectReview{} }
func (selfSubjectReviews) Destroy()                {}
func (selfSubjectReviews) NamespaceScoped() bool   { return false }
func (selfSubjectReviews) GetSingularName() string { return "selfsubjectreview" }

// Create answers the review.
func (selfSubjectReviews) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	if _, ok := obj.(*authenticationv1.SelfSubjectReview); !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a SelfSubjectReview: %T", obj))
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now()},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(caller)},
	}, nil
}
