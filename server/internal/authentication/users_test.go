// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-annex/annex/test/framework/providertest"
)

const patience = 20 * time.Second

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, o Options) *Users {
	t.Helper()
	if errs := o.Validate(nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	users, err := New(t.Context(), o, Server{ID: t.Name(), Audiences: authenticator.Audiences{"https://annex"}, Issuers: []string{"https://own"}})
	if err != nil {
		t.Fatal(err)
	}
	return users
}

// eventually waits for the issuers' keys, which are fetched in the background.
func eventually(t *testing.T, users *Users, token string) *authenticator.Response {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		response, ok, err := users.AuthenticateToken(t.Context(), token)
		if err == nil && ok {
			return response
		}
		if time.Now().After(deadline) {
			t.Fatalf("not authenticated: %v", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func TestUsersOfAnIssuer(t *testing.T) {
	t.Parallel()
	p, stranger := providertest.Start(t), providertest.Start(t)
	o := NewOptions()
	o.ConfigFile = filepath.Join(t.TempDir(), "authentication.yaml")
	write(t, o.ConfigFile, providertest.Configuration(p))
	users := start(t, o)

	jane := eventually(t, users, p.Token(t, nil)).User
	if jane.GetName() != "oidc:jane" || !slices.Equal(jane.GetGroups(), []string{"oidc:developers"}) {
		t.Errorf("got %s in %v", jane.GetName(), jane.GetGroups())
	}
	if conditions := users.Anonymous().Conditions; len(conditions) != 1 || conditions[0].Path != "/readyz" {
		t.Errorf("anonymous callers are let in at %v", conditions)
	}
	for name, token := range map[string]string{
		"for another audience":          p.Token(t, map[string]any{"aud": "other"}),
		"expired":                       p.Token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
		"of another issuer":             stranger.Token(t, nil),
		"of another key":                stranger.Token(t, map[string]any{"iss": p.URL}),
		"without a user":                p.Token(t, map[string]any{"sub": nil}),
		"cut off":                       p.Token(t, nil)[:100],
		"nothing that could be a token": "hello",
	} {
		if response, ok, _ := users.AuthenticateToken(t.Context(), token); ok {
			t.Errorf("a token %s was taken as one of %s", name, response.User.GetName())
		}
	}
}

func TestChangesOfTheFile(t *testing.T) {
	t.Parallel()
	one, two := providertest.Start(t), providertest.Start(t)
	o := NewOptions()
	o.ConfigFile = filepath.Join(t.TempDir(), "authentication.yaml")
	write(t, o.ConfigFile, providertest.Configuration(one))
	users := start(t, o)
	eventually(t, users, one.Token(t, nil))

	write(t, o.ConfigFile, "kind: Nonsense")
	if err := users.issuers.reread(t.Context()); err == nil || !strings.Contains(err.Error(), o.ConfigFile) {
		t.Errorf("reading a broken file again returned %v", err)
	}
	eventually(t, users, one.Token(t, nil))

	write(t, o.ConfigFile, providertest.Configuration(two))
	if err := users.issuers.reread(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, users, two.Token(t, nil))
	if _, ok, _ := users.AuthenticateToken(t.Context(), one.Token(t, nil)); ok {
		t.Error("an issuer that was removed is still believed")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	o := NewOptions()
	o.ConfigFile = filepath.Join(t.TempDir(), "authentication.yaml")
	write(t, o.ConfigFile, providertest.Configuration())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start(t, o).Run(ctx)
}

func TestUsersOfAWebhook(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &authenticationv1.TokenReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if review.Spec.Token == "good" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "joe", UID: "7"}, Audiences: review.Spec.Audiences}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	o := NewOptions()
	o.WebhookFile = filepath.Join(t.TempDir(), "webhook.kubeconfig")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"a": {Server: server.URL, CertificateAuthorityData: authority}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {}},
		Contexts:       map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}},
		CurrentContext: "a",
	}, o.WebhookFile); err != nil {
		t.Fatal(err)
	}
	users := start(t, o)
	response, ok, err := users.AuthenticateToken(t.Context(), "good")
	if err != nil || !ok || response.User.GetName() != "joe" || response.User.GetUID() != "7" {
		t.Errorf("got %v, %t, %v", response, ok, err)
	}
	if _, ok, _ := users.AuthenticateToken(t.Context(), "bad"); ok {
		t.Error("a token was taken that the webhook does not know")
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		write(t, path, content)
		return path
	}
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no file":       {func(o *Options) { o.ConfigFile = filepath.Join(dir, "none") }, "--authentication-config: open"},
		"an empty file": {func(o *Options) { o.ConfigFile = file("empty", "") }, "it is empty"},
		"another kind": {func(o *Options) {
			o.ConfigFile = file("kind", strings.Replace(head, "Authentication", "Authorization", 1))
		}, "its kind is"},
		"an unknown field": {func(o *Options) { o.ConfigFile = file("field", head+"jwts: []\n") }, "unknown field \"jwts\""},
		"an issuer over HTTP": {func(o *Options) {
			o.ConfigFile = file("http", head+"jwt: [{issuer: {url: \"http://a\", audiences: [a]}, claimMappings: {username: {claim: sub, prefix: \"\"}}}]\n")
		}, "jwt[0].issuer.url"},
		"our own issuer": {func(o *Options) {
			o.ConfigFile = file("own", head+"jwt: [{issuer: {url: \"https://own\", audiences: [a]}, claimMappings: {username: {claim: sub, prefix: \"\"}}}]\n")
		}, "jwt[0].issuer.url"},
		"no webhook":      {func(o *Options) { o.WebhookFile = filepath.Join(dir, "none") }, "--authentication-token-webhook-config-file"},
		"another version": {func(o *Options) { o.WebhookVersion = "v2" }, "set v1 or v1beta1"},
		"a negative time": {func(o *Options) { o.WebhookCacheTTL = -1 }, "set 0 or more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := NewOptions()
			tc.change(&o)
			if errs := o.Validate([]string{"https://own"}); len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want) {
				t.Errorf("got %v, want one error with %q", errs, tc.want)
			}
		})
	}
}
