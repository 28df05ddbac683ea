// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccounts

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/registry/native/core"
)

// objects is a store of one kind.
type objects map[string]runtime.Object

func (o objects) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if obj, ok := o[request.NamespaceValue(ctx)+"/"+name]; ok {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("objects"), name)
}

// failing is a store that does not answer, below a watch cache with some objects.
type failing struct{ cached objects }

func (f failing) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" {
		return f.cached.Get(ctx, name, options)
	}
	return nil, apierrors.NewInternalError(errors.New("etcdserver: no leader"))
}

// world is an account and a secret with what issues their tokens.
type world struct {
	*Tokens
	clock   *clocktesting.FakePassiveClock
	account *corev1.ServiceAccount
	secret  *corev1.Secret
}

func newWorld(t *testing.T, keyFiles ...string) *world {
	t.Helper()
	w := &world{
		clock:   clocktesting.NewFakePassiveClock(time.Now()),
		account: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "builder", UID: "1"}},
		secret:  &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bound", UID: "2"}},
	}
	var err error
	w.Tokens, err = New(Config{Issuers: []string{"https://a", "https://b"}, SigningKeyFile: keyFiles[0], KeyFiles: keyFiles[1:], Audiences: []string{"here"}, Clock: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	w.Attach(objects{"ns/builder": w.account}, objects{"ns/bound": w.secret})
	return w
}

// issue returns a token for ten minutes.
func (w *world) issue(t *testing.T) string {
	t.Helper()
	now := w.clock.Now()
	token, _, err := w.Issue(t.Context(), core.Token{Account: w.account, Secret: w.secret, Audiences: []string{"here"}, Issued: now, Expires: now.Add(10 * time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (w *world) want(t *testing.T, what, token string, want bool) {
	t.Helper()
	response, got, err := w.AuthenticateToken(t.Context(), token)
	if got != want || got != (response != nil) {
		t.Errorf("%s: got %t, %v, want %t", what, got, err, want)
	}
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keyFile(t *testing.T, key any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key.pem")
	writeKey(t, file, key)
	return file
}

func writeKey(t *testing.T, file string, key any) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTimeOfTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keyFile(t, newKey(t, elliptic.P256())))
	issued := w.clock.Now()
	token := w.issue(t)
	for _, tc := range []struct {
		after time.Duration
		want  bool
	}{
		// Clocks may differ by a minute.
		{-62 * time.Second, false},
		{-58 * time.Second, true},
		{0, true},
		{10 * time.Minute, true},
		{10*time.Minute + 58*time.Second, true},
		{10*time.Minute + 62*time.Second, false},
	} {
		w.clock.SetTime(issued.Add(tc.after))
		w.want(t, tc.after.String(), token, tc.want)
	}
}

func TestDeletionThatWaitsForFinalizers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keyFile(t, newKey(t, elliptic.P256())))
	token := w.issue(t)
	deleted := func(before time.Duration) *metav1.Time {
		at := metav1.NewTime(w.clock.Now().Add(-before))
		return &at
	}
	w.account.DeletionTimestamp = deleted(30 * time.Second)
	w.want(t, "an account that was deleted just now", token, true)
	w.account.DeletionTimestamp = deleted(61 * time.Second)
	w.want(t, "an account that was deleted a while ago", token, false)
	w.account.DeletionTimestamp = nil
	w.secret.DeletionTimestamp = deleted(61 * time.Second)
	w.want(t, "a secret that was deleted a while ago", token, false)
	w.secret.DeletionTimestamp = nil
	w.want(t, "both are there", token, true)
	w.Attach(objects{"ns/builder": w.account}, nil)
	w.want(t, "there are no secrets", token, false)
}

func TestLegacyTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keyFile(t, newKey(t, elliptic.P256())))
	token, err := w.IssueLegacy(t.Context(), w.account, w.secret)
	if err != nil {
		t.Fatal(err)
	}
	w.want(t, "a secret that does not hold it", token, false)
	w.secret.Data = map[string][]byte{"token": []byte(token)}
	w.want(t, "a secret that holds it", token, true)
	odd, err := w.sign(t.Context(), claims{
		Issuer: "https://a", Subject: "system:serviceaccount:ns:builder", Namespace: "ns", SecretName: "bound", AccountName: "builder", AccountUID: "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.secret.Data["token"] = []byte(odd)
	w.want(t, "one that is said to have been asked for", odd, false)
	w.secret.Data["token"] = []byte(token)
	w.clock.SetTime(w.clock.Now().AddDate(20, 0, 0))
	w.want(t, "after 20 years", token, true)
	now := metav1.NewTime(w.clock.Now())
	w.secret.DeletionTimestamp = &now
	w.want(t, "a secret that is being deleted", token, false)
	w.secret.DeletionTimestamp, w.account.DeletionTimestamp = nil, &now
	w.want(t, "an account that is being deleted", token, false)
	w.account.DeletionTimestamp, w.account.UID = nil, "3"
	w.want(t, "an account that was made again", token, false)
}

func TestTokensWhileTheStoreDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keyFile(t, newKey(t, elliptic.P256())))
	legacy, err := w.IssueLegacy(t.Context(), w.account, w.secret)
	if err != nil {
		t.Fatal(err)
	}
	w.secret.Data = map[string][]byte{"token": []byte(legacy)}
	bound := w.issue(t)
	deleted := metav1.NewTime(w.clock.Now().Add(-2 * time.Minute))
	account, secret := w.account.DeepCopy(), w.secret.DeepCopy()
	account.UID, secret.UID, secret.Data = "3", "3", nil
	goneAccount, goneSecret := w.account.DeepCopy(), w.secret.DeepCopy()
	goneAccount.DeletionTimestamp, goneSecret.DeletionTimestamp = &deleted, &deleted
	accounts, secrets := objects{"ns/builder": w.account}, objects{"ns/bound": w.secret}
	for name, tc := range map[string]struct {
		accounts, secrets interface {
			Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error)
		}
		good, unavailable bool
	}{
		"the watch cache has both":          {accounts: failing{accounts}, secrets: failing{secrets}, good: true},
		"the watch cache has the account":   {accounts: failing{accounts}, secrets: secrets, good: true},
		"the watch cache has the secret":    {accounts: accounts, secrets: failing{secrets}, good: true},
		"the watch cache lacks the account": {accounts: failing{}, secrets: secrets, unavailable: true},
		"the watch cache lacks the secret":  {accounts: accounts, secrets: failing{}, unavailable: true},
		"another account in the cache":      {accounts: failing{objects{"ns/builder": account}}, secrets: secrets},
		"another secret in the cache":       {accounts: accounts, secrets: failing{objects{"ns/bound": secret}}},
		"a deleted account in the cache":    {accounts: failing{objects{"ns/builder": goneAccount}}, secrets: secrets},
		"a deleted secret in the cache":     {accounts: accounts, secrets: failing{objects{"ns/bound": goneSecret}}},
		"no account in the store":           {accounts: objects{}, secrets: failing{secrets}},
		"no secret in the store":            {accounts: accounts, secrets: objects{}},
	} {
		w.Attach(tc.accounts, tc.secrets)
		for kind, token := range map[string]string{"bound": bound, "legacy": legacy} {
			_, good, err := w.AuthenticateToken(t.Context(), token)
			if good != tc.good || apierrors.IsServiceUnavailable(err) != tc.unavailable {
				t.Errorf("%s: the %s token: got %t, %v; want good %t, unavailable %t", name, kind, good, err, tc.good, tc.unavailable)
			}
		}
	}
}

func TestKindsOfKeys(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		key  any
		want jose.SignatureAlgorithm
	}{
		"P-256": {newKey(t, elliptic.P256()), jose.ES256},
		"P-384": {newKey(t, elliptic.P384()), jose.ES384},
		"P-521": {newKey(t, elliptic.P521()), jose.ES512},
		"RSA":   {rsaKey, jose.RS256},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := keyFile(t, newKey(t, elliptic.P256()))
			own := keyFile(t, tc.key)
			w := newWorld(t, own, other)
			w.want(t, "a token", w.issue(t), true)
			if got := w.keys.current(t.Context()).public[0].algorithm; got != tc.want {
				t.Errorf("signed with %s, want %s", got, tc.want)
			}
			w.want(t, "a token of another replica, whose key is known", newWorld(t, other).issue(t), true)
			w.want(t, "a token of a stranger", newWorld(t, keyFile(t, newKey(t, elliptic.P256()))).issue(t), false)
		})
	}
	if _, err := New(Config{Issuers: []string{"https://a"}, SigningKeyFile: keyFile(t, newKey(t, elliptic.P224()))}); err == nil {
		t.Error("a key on the curve P-224 was taken")
	}
}

func TestKeyFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	file := keyFile(t, newKey(t, elliptic.P256()))
	w := newWorld(t, file)
	before := w.issue(t)
	if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(keysInterval))
	w.want(t, "with a file that holds no key", before, true)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(keysInterval))
	w.want(t, "without the file", before, true)
	writeKey(t, file, newKey(t, elliptic.P384()))
	w.want(t, "before the file is read again", before, true)
	w.clock.SetTime(w.clock.Now().Add(keysInterval))
	w.want(t, "with another key", before, false)
	w.want(t, "of another key", w.issue(t), true)
}

func TestLaterIssuersAreTakenToo(t *testing.T) {
	t.Parallel()
	file := keyFile(t, newKey(t, elliptic.P256()))
	w := newWorld(t, file)
	older := newWorld(t, file)
	older.config.Issuers = []string{"https://b"}
	w.want(t, "of the second issuer", older.issue(t), true)
	older.config.Issuers = []string{"https://c"}
	stranger := older.issue(t)
	w.want(t, "of a third one", stranger, false)
	if _, _, err := w.AuthenticateToken(t.Context(), stranger); err != nil {
		t.Errorf("a token that others may know is refused with %v", err)
	}
}
