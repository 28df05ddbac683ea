// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/test/framework/providertest"
)

// TestUsersOfAnIssuerSignIn has the configuration file name an issuer, and let anonymous callers in at /readyz alone.
func TestUsersOfAnIssuerSignIn(t *testing.T) {
	t.Parallel()
	provider := providertest.Start(t)
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	if err := os.WriteFile(file, []byte(providertest.Configuration(provider)), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startHost(t, func(o *controlplane.Options) { o.ExternalUsers.ConfigFile = file })
	as := func(token string) *rest.Config {
		return &rest.Config{Host: h.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: h.Serving.CertFile()}}
	}
	jane := core(t, as(provider.Token(t, nil)))
	eventually(t, func() error {
		review, err := jane.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err == nil && review.Status.UserInfo.Username != "oidc:jane" {
			err = errors.New("signed in as " + review.Status.UserInfo.Username)
		}
		return err
	})
	forged := core(t, as(providertest.Start(t).Token(t, map[string]any{"iss": provider.URL})))
	if _, err := forged.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token that somebody else signed: got %v, want 401", err)
	}
	nobody := core(t, as("")).Discovery().RESTClient()
	if _, err := nobody.Get().AbsPath("/readyz").DoRaw(t.Context()); err != nil {
		t.Errorf("an anonymous request where the file lets it in: %v", err)
	}
	if _, err := nobody.Get().AbsPath("/livez").DoRaw(t.Context()); !apierrors.IsUnauthorized(err) {
		t.Errorf("an anonymous request where the file does not let it in: got %v, want 401", err)
	}
}
