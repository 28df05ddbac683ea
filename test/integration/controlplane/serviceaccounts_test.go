// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/server/controlplane"
)

// minTokenMaximum is the least that --service-account-max-token-expiration may be.
const minTokenMaximum = time.Hour

// errStill is for eventually, where there is nothing more to tell.
var errStill = errors.New("nothing has changed yet")

func TestNamespacesHaveAccountAndAuthorities(t *testing.T) {
	t.Parallel()
	h, _ := startIssuer(t, nil)
	client := core(t, h.Admin())
	authorities := string(must[[]byte](t)(os.ReadFile(h.Serving.CertFile())))
	must[*corev1.Namespace](t)(client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}))
	complete := func(namespace string) error {
		if _, err := client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			return err
		}
		configMap, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if configMap.Data["ca.crt"] != authorities || len(configMap.Data)+len(configMap.BinaryData) != 1 || configMap.Annotations["kubernetes.io/description"] == "" {
			return fmt.Errorf("the ConfigMap of %s holds %v", namespace, configMap)
		}
		return nil
	}
	for _, namespace := range []string{"team", "default", "kube-system"} {
		eventually(t, func() error { return complete(namespace) })
	}

	if err := client.CoreV1().ServiceAccounts("team").Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().ConfigMaps("team").Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return complete("team") })

	for _, patch := range []string{
		`{"data":{"ca.crt":"spoiled"}}`, `{"data":{"more":"x"}}`, `{"binaryData":{"b":"AAEC"}}`, `{"metadata":{"annotations":null}}`,
	} {
		must[*corev1.ConfigMap](t)(client.CoreV1().ConfigMaps("team").Patch(t.Context(), "kube-root-ca.crt", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
		eventually(t, func() error { return complete("team") })
	}
}

func TestTokenSecrets(t *testing.T) {
	t.Parallel()
	h, _ := startIssuer(t, nil)
	admin := core(t, h.Admin())
	secrets, accounts := admin.CoreV1().Secrets("default"), admin.CoreV1().ServiceAccounts("default")
	makeSecret := func(name, account string) {
		t.Helper()
		must[*corev1.Secret](t)(secrets.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kubernetes.io/service-account.name": account}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{}))
	}
	gone := func(name string) func() error {
		return func() error {
			if secret, err := secrets.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the secret %s is still there: %v, %w", name, secret, err)
			}
			return nil
		}
	}
	filled := func(name string) *corev1.Secret {
		t.Helper()
		var secret *corev1.Secret
		eventually(t, func() error {
			var err error
			if secret, err = secrets.Get(t.Context(), name, metav1.GetOptions{}); err == nil && len(secret.Data["token"]) == 0 {
				err = fmt.Errorf("the secret holds %v", secret.Data)
			}
			return err
		})
		return secret
	}
	account := newAccount(t, admin, "builder")
	makeSecret("kept", "builder")
	secret := filled("kept")
	authorities := string(must[[]byte](t)(os.ReadFile(h.Serving.CertFile())))
	if string(secret.Data["namespace"]) != "default" || string(secret.Data["ca.crt"]) != authorities || secret.Annotations["kubernetes.io/service-account.uid"] != string(account.UID) {
		t.Errorf("the secret holds %v with %v", secret.Data, secret.Annotations)
	}
	token := string(secret.Data["token"])
	h.wantStatus("in a secret", token, 200)

	label := func(value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":%s}}}`, value)
		must[*corev1.Secret](t)(secrets.Patch(t.Context(), "kept", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
	}
	label(`"2026-01-01"`)
	h.wantStatus("in a secret that was marked invalid", token, 401)
	label("null")
	h.wantStatus("in a secret that is no longer marked", token, 200)

	must[*corev1.Secret](t)(secrets.Patch(t.Context(), "kept", types.MergePatchType, []byte(`{"data":{"token":null,"ca.crt":"eA=="}}`), metav1.PatchOptions{}))
	again := filled("kept")
	eventually(t, func() error {
		if again = filled("kept"); string(again.Data["ca.crt"]) != authorities {
			return errStill
		}
		return nil
	})
	h.wantStatus("in a secret that was filled again", string(again.Data["token"]), 200)

	makeSecret("deleted", "builder")
	token = string(filled("deleted").Data["token"])
	must[*corev1.ServiceAccount](t)(accounts.Patch(t.Context(), "builder", types.MergePatchType, []byte(`{"secrets":[{"name":"deleted"},{"name":"elsewhere"}]}`), metav1.PatchOptions{}))
	if err := secrets.Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.wantStatus("in a secret that was deleted", token, 401)
	eventually(t, func() error {
		current, err := accounts.Get(t.Context(), "builder", metav1.GetOptions{})
		if err == nil && (len(current.Secrets) != 1 || current.Secrets[0].Name != "elsewhere") {
			err = fmt.Errorf("the account names %v", current.Secrets)
		}
		return err
	})

	makeSecret("orphan", "nobody")
	eventually(t, gone("orphan"))
	token = string(filled("kept").Data["token"])
	if err := accounts.Delete(t.Context(), "builder", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.wantStatus("in the secret of a deleted account", token, 401)
	eventually(t, gone("kept"))
}

// TestAccountsWithoutOtherKinds has what needs a kind go with it, and nothing else.
func TestAccountsWithoutOtherKinds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		without        []schema.GroupResource
		tokens, tokenR int
		keys           int
	}{
		"authentication": {[]schema.GroupResource{{Group: "authentication.k8s.io"}}, 201, 201, 200},
		"secrets":        {[]schema.GroupResource{{Resource: "secrets"}}, 201, 422, 200},
		"ConfigMaps":     {[]schema.GroupResource{{Resource: "configmaps"}}, 201, 404, 200},
		"accounts":       {[]schema.GroupResource{{Resource: "serviceaccounts"}}, 404, 404, 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _ := startIssuer(t, func(o *controlplane.Options) { o.DisabledResources = tc.without })
			path := h.URL + "/api/v1/namespaces/default/serviceaccounts/default/token"
			if tc.tokens == http.StatusCreated {
				eventually(t, func() error {
					_, err := core(t, h.Admin()).CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
					return err
				})
			}
			if tc.tokenR == http.StatusCreated {
				must[*corev1.Secret](t)(core(t, h.Admin()).CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}))
			}
			if code, body := send(t, h.Admin(), http.MethodPost, path, `{}`, nil); code != tc.tokens {
				t.Errorf("a token: got %d %s, want %d", code, body, tc.tokens)
			}
			bound := `{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"a"}}}`
			if code, body := send(t, h.Admin(), http.MethodPost, path, bound, nil); code != tc.tokenR {
				t.Errorf("a token that is bound to a secret: got %d %s, want %d", code, body, tc.tokenR)
			}
			if code, _ := send(t, h.Admin(), http.MethodGet, h.URL+"/openid/v1/jwks", "", nil); code != tc.keys {
				t.Errorf("the keys: got %d, want %d", code, tc.keys)
			}
			_, documents := send(t, h.Admin(), http.MethodGet, h.URL+"/openapi/v2", "", nil)
			if got, want := strings.Contains(documents, "io.k8s.api.authentication.v1.TokenRequest"), tc.tokens == http.StatusCreated; got != want && name != "accounts" {
				t.Errorf("TokenRequest in OpenAPI: got %t, want %t", got, want)
			}
		})
	}
}
