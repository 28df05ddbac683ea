// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package authentication answers who somebody is: TokenReview for the holder of a token, SelfSubjectReview for the caller.
// Nothing of it is stored.
package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served in.
var GroupVersion = authenticationv1.SchemeGroupVersion

// Types returns an empty object of every type of the group.
func Types() []runtime.Object {
	return []runtime.Object{&authenticationv1.TokenReview{}, &authenticationv1.SelfSubjectReview{}}
}

// Install adds the kinds to their group. Tokens are judged by the authenticator for the audiences a review asks for, or
// for the server's own where it asks for none.
func Install(group *resource.Group, tokens authenticator.Request, audiences authenticator.Audiences) {
	group.Add("tokenreviews", &tokenReviews{tokens: tokens, audiences: audiences})
	group.Add("selfsubjectreviews", selfSubjectReviews{})
}

func userInfo(info user.Info) authenticationv1.UserInfo {
	out := authenticationv1.UserInfo{Username: info.GetName(), UID: info.GetUID(), Groups: info.GetGroups()}
	for key, values := range info.GetExtra() {
		if out.Extra == nil {
			out.Extra = map[string]authenticationv1.ExtraValue{}
		}
		out.Extra[key] = values
	}
	return out
}
