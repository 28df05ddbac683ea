// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/controlplane"
)

const issuer = "https://annex.test"

// startIssuer returns a host that issues tokens, with the key it signs them with.
func startIssuer(t *testing.T, adjust func(*controlplane.Options)) (h *host, keyFile string) {
	t.Helper()
	h = newHost(t, nil)
	keyFile = newKeyFile(t)
	h.Adjust = func(o *controlplane.Options) {
		o.ServiceAccounts = controlplane.ServiceAccounts{Issuers: []string{issuer}, SigningKeyFile: keyFile, RootCAFile: h.Serving.CertFile()}
		if adjust != nil {
			adjust(o)
		}
	}
	h.Start()
	return h, keyFile
}

func newKeyFile(t *testing.T) string {
	t.Helper()
	directory := must[*pki.Directory](t)(pki.Open(t.TempDir()))
	return must[string](t)(directory.Key("service-accounts"))
}

// bearer returns the configuration of a client that has nothing but a token.
func (h *host) bearer(token string) *rest.Config {
	config := h.With(pki.Pair{})
	config.BearerToken = token
	return config
}

// status is what a request with the token is answered.
func (h *host) status(token string) int {
	h.t.Helper()
	code, _ := send(h.t, h.bearer(token), http.MethodGet, h.URL+"/api/v1", "", nil)
	return code
}

func (h *host) wantStatus(what, token string, want int) {
	h.t.Helper()
	if got := h.status(token); got != want {
		h.t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

func newAccount(t *testing.T, client kubernetes.Interface, name string) *corev1.ServiceAccount {
	t.Helper()
	return must[*corev1.ServiceAccount](t)(client.CoreV1().ServiceAccounts("default").
		Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
}

func requestToken(ctx context.Context, client kubernetes.Interface, name string, spec authenticationv1.TokenRequestSpec) (*authenticationv1.TokenRequest, error) {
	return client.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
}

// tokenOf returns a token that must be issued.
func tokenOf(t *testing.T, client kubernetes.Interface, name string, spec authenticationv1.TokenRequestSpec) string {
	t.Helper()
	return must[*authenticationv1.TokenRequest](t)(requestToken(t.Context(), client, name, spec)).Status.Token
}

func TestTokenSaysWhoseItIs(t *testing.T) {
	t.Parallel()
	h, _ := startIssuer(t, nil)
	admin := core(t, h.Admin())
	account := newAccount(t, admin, "builder")
	secret := must[*corev1.Secret](t)(admin.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bound"}}, metav1.CreateOptions{}))
	answer := must[*authenticationv1.TokenRequest](t)(requestToken(t.Context(), admin, "builder", authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To[int64](1200),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: "bound", UID: secret.UID},
	}))
	if answer.UID != account.UID || answer.Name != "builder" || answer.Namespace != "default" {
		t.Errorf("the answer is about %s/%s %s, want the account", answer.Namespace, answer.Name, answer.UID)
	}
	left := time.Until(answer.Status.ExpirationTimestamp.Time)
	if left > 1200*time.Second || left < 1100*time.Second {
		t.Errorf("the token is said to be valid for %s, want 20 min", left)
	}

	claims := unverified(t, answer.Status.Token)
	issued := claims["iat"].(float64)
	want := map[string]any{
		"iss": issuer, "sub": "system:serviceaccount:default:builder", "aud": []any{issuer},
		"iat": issued, "nbf": issued, "exp": issued + 1200, "jti": claims["jti"],
		"kubernetes.io": map[string]any{
			"namespace":      "default",
			"serviceaccount": map[string]any{"name": "builder", "uid": string(account.UID)},
			"secret":         map[string]any{"name": "bound", "uid": string(secret.UID)},
		},
	}
	if diff := cmp.Diff(want, claims); diff != "" {
		t.Errorf("claims (-want,+got):\n%s", diff)
	}

	who := must[*authenticationv1.SelfSubjectReview](t)(core(t, h.bearer(answer.Status.Token)).AuthenticationV1().
		SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))
	user := authenticationv1.UserInfo{
		Username: "system:serviceaccount:default:builder", UID: string(account.UID),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
		Extra:  map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {fmt.Sprintf("JTI=%s", claims["jti"])}},
	}
	if diff := cmp.Diff(user, who.Status.UserInfo); diff != "" {
		t.Errorf("who the holder is (-want,+got):\n%s", diff)
	}
}

// unverified returns what a token says.
func unverified(t *testing.T, token string) map[string]any {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestTokenRequests(t *testing.T) {
	t.Parallel()
	h, _ := startIssuer(t, func(o *controlplane.Options) { o.ServiceAccounts.MaxTokenExpiration = 2 * time.Hour })
	admin := core(t, h.Admin())
	account := newAccount(t, admin, "builder")
	secret := must[*corev1.Secret](t)(admin.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bound"}}, metav1.CreateOptions{}))
	seconds := func(n int64) string { return fmt.Sprintf(`{"spec":{"expirationSeconds":%d}}`, n) }
	bind := func(kind, name, uid string) string {
		return fmt.Sprintf(`{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":%q,"name":%q,"uid":%q}}}`, kind, name, uid)
	}
	for name, tc := range map[string]struct {
		account, query, body string
		want                 int
		says                 string
	}{
		"nothing asked for":                  {body: `{}`, want: 201, says: `"expirationSeconds":3600`},
		"a dry run":                          {query: "?dryRun=All", body: `{}`, want: 201, says: `"token":"ey`},
		"an audience":                        {body: `{"spec":{"audiences":["vault"]}}`, want: 201, says: `"audiences":["vault"]`},
		"10 minutes":                         {body: seconds(600), want: 201, says: `"expirationSeconds":600`},
		"a second less":                      {body: seconds(599), want: 422, says: "may not specify a duration less than 10 minutes"},
		"longer than the maximum":            {body: seconds(7201), want: 201, says: `"expirationSeconds":7200`},
		"2^32 seconds":                       {body: seconds(1 << 32), want: 201, says: `"expirationSeconds":7200`},
		"a second more":                      {body: seconds(1<<32 + 1), want: 422, says: "larger than 2^32 seconds"},
		"a negative time":                    {body: seconds(-1), want: 422},
		"a secret":                           {body: bind("Secret", "bound", string(secret.UID)), want: 201},
		"a secret of another uid":            {body: bind("Secret", "bound", "x"), want: 409, says: "does not match the UID in record"},
		"a secret that there is not":         {body: bind("Secret", "nothing", ""), want: 404},
		"a pod":                              {body: bind("Pod", "p", ""), want: 422, says: "does not serve the kind"},
		"a node":                             {body: bind("Node", "n", ""), want: 422, says: "does not serve the kind"},
		"a ConfigMap":                        {body: bind("ConfigMap", "c", ""), want: 400, says: "cannot bind token"},
		"attestations":                       {body: `{"spec":{"attestations":{"a":["b"]}}}`, want: 422},
		"the account's own name and uid":     {body: fmt.Sprintf(`{"metadata":{"name":"builder","namespace":"default","uid":%q}}`, account.UID), want: 201},
		"another name":                       {body: `{"metadata":{"name":"other"}}`, want: 422, says: "must match the service account name"},
		"another namespace":                  {body: `{"metadata":{"namespace":"kube-system"}}`, want: 400},
		"another uid":                        {body: `{"metadata":{"uid":"x"}}`, want: 409, says: "does not match the UID of the service account"},
		"an account that there is not":       {account: "nobody", body: `{}`, want: 404},
		"a status, which is not believed":    {body: `{"status":{"token":"made-up","expirationTimestamp":null}}`, want: 201, says: `"token":"ey`},
		"audiences that no header could fit": {body: `{"spec":{"audiences":["` + strings.Repeat("a", 20_000) + `"]}}`, want: 422, says: "which no server takes"},
		"no JSON":                            {body: `x`, want: 400},
		"another kind":                       {body: `{"apiVersion":"v1","kind":"Secret"}`, want: 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := h.URL + "/api/v1/namespaces/default/serviceaccounts/" + "builder"
			if tc.account != "" {
				path = h.URL + "/api/v1/namespaces/default/serviceaccounts/" + tc.account
			}
			code, body := send(t, h.Admin(), http.MethodPost, path+"/token"+tc.query, tc.body, nil)
			if code != tc.want || !strings.Contains(body, tc.says) {
				t.Errorf("got %d %s\nwant %d with %s", code, body, tc.want, tc.says)
			}
		})
	}
}

// forger makes tokens with the server's own key that say what they should not.
type forger struct {
	t      *testing.T
	key    any
	keyID  string
	claims map[string]any
}

func newForger(t *testing.T, keyFile, token string) forger {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	return forger{t: t, key: readKey(t, keyFile), keyID: parsed.Headers[0].KeyID, claims: unverified(t, token)}
}

// say returns the token with some claims changed; nil takes one away. Claims within "kubernetes.io" begin with a dot.
func (f forger) say(change map[string]any) string {
	f.t.Helper()
	return f.sign(jose.ES256, f.key, f.keyID, change)
}

func (f forger) sign(algorithm jose.SignatureAlgorithm, key any, keyID string, change map[string]any) string {
	f.t.Helper()
	raw := must[[]byte](f.t)(json.Marshal(f.claims))
	claims := map[string]any{}
	if err := json.Unmarshal(raw, &claims); err != nil {
		f.t.Fatal(err)
	}
	for name, value := range change {
		into := claims
		if inner, ok := strings.CutPrefix(name, "."); ok {
			into, name = claims["kubernetes.io"].(map[string]any), inner
		}
		into[name] = value
		if value == nil {
			delete(into, name)
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: keyID}}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return must[string](f.t)(jwt.Signed(signer).Claims(claims).Serialize())
}

func TestBadTokensAreRefused(t *testing.T) {
	t.Parallel()
	h, keyFile := startIssuer(t, nil)
	admin := core(t, h.Admin())
	account := newAccount(t, admin, "builder")
	newAccount(t, admin, "other")
	good := tokenOf(t, admin, "builder", authenticationv1.TokenRequestSpec{})
	forge := newForger(t, keyFile, good)
	parts := strings.Split(good, ".")
	now := time.Now()
	from := func(d time.Duration) float64 { return float64(now.Add(d).Unix()) }
	reference := map[string]any{"name": "x", "uid": "y"}
	publicKey := must[[]byte](t)(json.Marshal(jose.JSONWebKey{Key: forge.key, KeyID: forge.keyID}))
	for name, tc := range map[string]struct {
		token string
		want  int
	}{
		"a good one":                                {good, 200},
		"a good one, signed again":                  {forge.say(nil), 200},
		"without the id of the key":                 {forge.sign(jose.ES256, forge.key, "", nil), 200},
		"several audiences, one of them ours":       {forge.say(map[string]any{"aud": []string{"vault", issuer}}), 200},
		"another audience":                          {tokenOf(t, admin, "builder", authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}}), 401},
		"expired":                                   {forge.say(map[string]any{"exp": from(-2 * time.Minute)}), 401},
		"without an end":                            {forge.say(map[string]any{"exp": nil}), 401},
		"not valid yet":                             {forge.say(map[string]any{"nbf": from(time.Hour)}), 401},
		"issued in the future":                      {forge.say(map[string]any{"iat": from(time.Hour)}), 401},
		"another issuer":                            {forge.say(map[string]any{"iss": "https://elsewhere.test"}), 401},
		"the issuer of secrets":                     {forge.say(map[string]any{"iss": "kubernetes/serviceaccount"}), 401},
		"no issuer":                                 {forge.say(map[string]any{"iss": nil}), 401},
		"another subject":                           {forge.say(map[string]any{"sub": "system:serviceaccount:default:other"}), 401},
		"a subject that is no account":              {forge.say(map[string]any{"sub": "system:admin"}), 401},
		"another account's name":                    {forge.say(map[string]any{"sub": "system:serviceaccount:default:other", ".serviceaccount": map[string]any{"name": "other", "uid": string(account.UID)}}), 401},
		"no uid":                                    {forge.say(map[string]any{".serviceaccount": map[string]any{"name": "builder"}}), 401},
		"another uid":                               {forge.say(map[string]any{".serviceaccount": map[string]any{"name": "builder", "uid": "x"}}), 401},
		"another namespace":                         {forge.say(map[string]any{".namespace": "kube-system"}), 401},
		"a path for a namespace":                    {forge.say(map[string]any{".namespace": "../secrets/default", "sub": "system:serviceaccount:../secrets/default:builder"}), 401},
		"no claims of Kubernetes":                   {forge.say(map[string]any{"kubernetes.io": nil}), 401},
		"bound to a secret that there is not":       {forge.say(map[string]any{".secret": reference}), 401},
		"bound to a pod":                            {forge.say(map[string]any{".pod": reference}), 401},
		"bound to a node":                           {forge.say(map[string]any{".node": reference}), 401},
		"bound to a webhook":                        {forge.say(map[string]any{".validatingwebhookconfiguration": reference}), 401},
		"claims of another form":                    {forge.say(map[string]any{"kubernetes.io": "x"}), 401},
		"another key":                               {forge.sign(jose.ES256, readKey(t, newKeyFile(t)), forge.keyID, nil), 401},
		"another key by another id":                 {forge.sign(jose.ES256, readKey(t, newKeyFile(t)), "other", nil), 401},
		"a shared secret that is the public key":    {forge.sign(jose.HS256, publicKey, forge.keyID, nil), 401},
		"no algorithm":                              {"eyJhbGciOiJub25lIn0." + parts[1] + ".", 401},
		"no algorithm, the signature of another":    {"eyJhbGciOiJub25lIn0." + parts[1] + "." + parts[2], 401},
		"another signature":                         {parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])), 401},
		"no signature":                              {parts[0] + "." + parts[1] + ".", 401},
		"two parts":                                 {parts[0] + "." + parts[1], 401},
		"many parts":                                {strings.Repeat("a.", 5000) + "a", 401},
		"garbage":                                   {"garbage", 401},
		"garbage in the form of a token":            {"a.b.c", 401},
		"a token that is longer than any is":        {good + strings.Repeat("A", 20_000), 401},
		"what would be good if it were not so long": {forge.say(map[string]any{"padding": strings.Repeat("A", 20_000)}), 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := h.status(tc.token); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestTokensDieWithWhatTheyAreBoundTo(t *testing.T) {
	t.Parallel()
	h, _ := startIssuer(t, nil)
	admin := core(t, h.Admin())
	accounts, secrets := admin.CoreV1().ServiceAccounts("default"), admin.CoreV1().Secrets("default")
	newAccount(t, admin, "builder")
	makeSecret := func() {
		t.Helper()
		must[*corev1.Secret](t)(secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bound"}}, metav1.CreateOptions{}))
	}
	makeSecret()
	bound := tokenOf(t, admin, "builder", authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: "bound"}})
	free := tokenOf(t, admin, "builder", authenticationv1.TokenRequestSpec{})
	h.wantStatus("bound to a secret", bound, 200)

	if err := secrets.Delete(t.Context(), "bound", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.wantStatus("bound to a secret that was deleted", bound, 401)
	makeSecret()
	h.wantStatus("bound to a secret that was made again", bound, 401)
	h.wantStatus("bound to the account alone", free, 200)

	if err := accounts.Delete(t.Context(), "builder", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.wantStatus("of a deleted account", free, 401)
	newAccount(t, admin, "builder")
	h.wantStatus("of an account that was made again", free, 401)
	h.wantStatus("of the new account", tokenOf(t, admin, "builder", authenticationv1.TokenRequestSpec{}), 200)
}

func TestTokenReviews(t *testing.T) {
	t.Parallel()
	h, _ := startIssuer(t, nil)
	admin := core(t, h.Admin())
	newAccount(t, admin, "builder")
	own := tokenOf(t, admin, "builder", authenticationv1.TokenRequestSpec{})
	vault := tokenOf(t, admin, "builder", authenticationv1.TokenRequestSpec{Audiences: []string{"vault", "other"}})
	for name, tc := range map[string]struct {
		token     string
		audiences []string
		want      []string
		wantError string
	}{
		"for this server":                  {token: own, want: []string{issuer}},
		"for this server, asked so":        {token: own, audiences: []string{"vault", issuer}, want: []string{issuer}},
		"for this server, asked otherwise": {token: own, audiences: []string{"vault"}, wantError: "is invalid for the target audiences"},
		"for another":                      {token: vault, wantError: "is invalid for the target audiences"},
		"for another, asked so":            {token: vault, audiences: []string{"vault"}, want: []string{"vault"}},
		"garbage":                          {token: "garbage", wantError: "invalid bearer token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			review, err := admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
				Spec: authenticationv1.TokenReviewSpec{Token: tc.token, Audiences: tc.audiences},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, review.Status.Audiences); diff != "" {
				t.Errorf("audiences (-want,+got):\n%s", diff)
			}
			if good := tc.want != nil; review.Status.Authenticated != good || good != (review.Status.User.Username == "system:serviceaccount:default:builder") {
				t.Errorf("got %+v, want authenticated %t", review.Status, good)
			}
			if !strings.Contains(review.Status.Error, tc.wantError) || tc.wantError == "" && review.Status.Error != "" {
				t.Errorf("got the error %q, want %q", review.Status.Error, tc.wantError)
			}
		})
	}
}

func TestTokensNeedAnIssuer(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	admin := core(t, h.Admin())
	newAccount(t, admin, "builder")
	if _, err := requestToken(t.Context(), admin, "builder", authenticationv1.TokenRequestSpec{}); !apierrors.IsNotFound(err) {
		t.Errorf("asking for a token where none are issued: got %v, want 404", err)
	}
	code, _ := send(t, h.Admin(), http.MethodGet, h.URL+"/openid/v1/jwks", "", nil)
	if code != http.StatusNotFound {
		t.Errorf("keys where none are used: got %d, want 404", code)
	}
}
