// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/controllers/restconfig"
	"github.com/kube-annex/annex/controllers/restconfig/restconfigtest"
)

func TestHostClientRejectsRedirects(t *testing.T) {
	t.Parallel()
	url, target := restconfigtest.Redirect(t, http.StatusTemporaryRedirect)
	config, err := (&Host{Config: &rest.Config{Host: url, BearerToken: "secret"}}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if redirected := (*restconfig.RedirectError)(nil); !errors.As(err, &redirected) || redirected.Location != target+"/api/v1/namespaces/kube-system" {
		t.Errorf("got %v, want an error that names the redirect", err)
	}
}
