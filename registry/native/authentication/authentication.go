// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package authentication answers who somebody is: TokenReview for the holder of a token, SelfSubjectReview for the caller.
// Nothing of it is stored. It is not a stable API.
package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served in.
var GroupVersion = authenticationv1.SchemeGroupVersion

// Kinds lists the kinds of the group. Tokens are judged by the authenticator for the audiences a review asks for, or for the
// server's own where it asks for none.
func Kinds(tokens authenticator.Request, audiences authenticator.Audiences) []resource.Served {
	return []resource.Served{
		review("tokenreviews", &authenticationv1.TokenReview{}, &tokenReviews{tokens: tokens, audiences: audiences}),
		review("selfsubjectreviews", &authenticationv1.SelfSubjectReview{}, selfSubjectReviews{}),
	}
}

func review(plural string, example runtime.Object, storage rest.Storage) resource.Served {
	return resource.Served{
		Resource: plural, Types: []runtime.Object{example},
		Install: func(group *resource.Group) error {
			group.Add(plural, storage)
			return nil
		},
	}
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
