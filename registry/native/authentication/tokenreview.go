// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/rest"
)

// tokenReviews tells extension servers whom a bearer token belongs to.
type tokenReviews struct {
	tokens    authenticator.Request
	audiences authenticator.Audiences
}

var (
	_ rest.Creater              = &tokenReviews{}
	_ rest.Scoper               = &tokenReviews{}
	_ rest.SingularNameProvider = &tokenReviews{}
)

func (*tokenReviews) New() runtime.Object     { return &authenticationv1.TokenReview{} }
func (*tokenReviews) Destroy()                {}
func (*tokenReviews) NamespaceScoped() bool   { return false }
func (*tokenReviews) GetSingularName() string { return "tokenreview" }

// Create answers the review.
func (r *tokenReviews) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*authenticationv1.TokenReview)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenReview: %T", obj))
	}
	if review.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	var err error
	if review.Status, err = r.judge(ctx, review.Spec); err != nil {
		return nil, err
	}
	return review, nil
}

func (r *tokenReviews) judge(ctx context.Context, spec authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) {
	audiences := authenticator.Audiences(spec.Audiences)
	if len(audiences) == 0 {
		audiences = r.audiences
	}
	ctx = context.WithoutCancel(ctx)
	if len(audiences) > 0 {
		ctx = authenticator.WithAudiences(ctx, audiences)
	}
	// The authenticator sees a request with nothing but the token, so neither the caller's certificate nor its headers count.
	request := (&http.Request{Header: http.Header{}, URL: &url.URL{}}).WithContext(ctx)
	request.Header.Set("Authorization", "Bearer "+spec.Token)
	response, ok, err := r.tokens.AuthenticateRequest(request)
	switch {
	case IsUnavailable(err):
		return authenticationv1.TokenReviewStatus{}, apierrors.NewServiceUnavailable(err.Error())
	case err != nil:
		return authenticationv1.TokenReviewStatus{Error: err.Error()}, nil
	case !ok || response.User.GetName() == user.Anonymous:
		return authenticationv1.TokenReviewStatus{}, nil
	case len(audiences) > 0 && len(audiences.Intersect(response.Audiences)) == 0:
		return authenticationv1.TokenReviewStatus{Error: "the token is not meant for any of the audiences"}, nil
	}
	return authenticationv1.TokenReviewStatus{Authenticated: true, User: userInfo(response.User), Audiences: response.Audiences}, nil
}

// IsUnavailable reports whether an authenticator could not find out who calls, for now. Errors of several authenticators are aggregated.
func IsUnavailable(err error) bool {
	if all, ok := err.(utilerrors.Aggregate); ok { //nolint:errorlint // An aggregate does not unwrap.
		return slices.ContainsFunc(all.Errors(), IsUnavailable)
	}
	return apierrors.IsServiceUnavailable(err)
}
