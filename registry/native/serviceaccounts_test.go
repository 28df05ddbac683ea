// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/registry/native/core"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

func TestServiceAccount(t *testing.T) {
	t.Parallel()
	secret := func(name string) []any { return []any{map[string]any{"name": name}} }
	resourcetest.Run(t, start(t, core.GroupVersion, core.Kinds(core.Tokens{})), resourcetest.Case{
		Resource: core.GroupVersion.WithResource("serviceaccounts"), Kind: "ServiceAccount", Namespace: "default",
		Names: []string{"account-a", "account-b", "account-c"}, Flat: true,
		Spec:        map[string]any{"secrets": secret("a"), "automountServiceAccountToken": true},
		ChangedSpec: map[string]any{"secrets": secret("b"), "automountServiceAccountToken": false},
		Columns:     []string{"Name", "Age"},
		ShortNames:  []string{"sa"},
	})
}

// TestTokenRequestNeedsNoGroup has the type of the subresource known where its own group is switched off, and no other of that group.
func TestTokenRequestNeedsNoGroup(t *testing.T) {
	t.Parallel()
	kinds, err := native.WithoutResources(schema.GroupResource{Group: "authentication.k8s.io"})
	if err != nil {
		t.Fatal(err)
	}
	scheme := kinds.NewScheme()
	for _, version := range []string{"v1", runtime.APIVersionInternal} {
		gv := schema.GroupVersion{Group: "authentication.k8s.io", Version: version}
		if !scheme.Recognizes(gv.WithKind("TokenRequest")) || scheme.Recognizes(gv.WithKind("TokenReview")) {
			t.Errorf("%s has %v, want TokenRequest alone", gv, scheme.KnownTypes(gv))
		}
	}
	request := &authenticationv1.TokenRequest{}
	scheme.Default(request)
	if seconds := request.Spec.ExpirationSeconds; seconds == nil || *seconds != 3600 {
		t.Errorf("defaulted to %v, want an hour", seconds)
	}
	without, err := native.WithoutResources(schema.GroupResource{Resource: "serviceaccounts"})
	if err != nil {
		t.Fatal(err)
	}
	if without.NewScheme().Recognizes(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")) {
		t.Error("TokenRequest is known without accounts to ask tokens of")
	}
}
