// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccounts

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func pemFile(t *testing.T, blocks ...*pem.Block) string {
	t.Helper()
	var content []byte
	for _, block := range blocks {
		content = append(content, pem.EncodeToMemory(block)...)
	}
	file := filepath.Join(t.TempDir(), "keys.pem")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func block(t *testing.T, kind string) func([]byte, error) *pem.Block {
	return func(der []byte, err error) *pem.Block {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return &pem.Block{Type: kind, Bytes: der}
	}
}

// TestFilesWithPublicKeys reads further keys in the forms in which administrators have them.
func TestFilesWithPublicKeys(t *testing.T) {
	t.Parallel()
	one, two := newKey(t, elliptic.P256()), newKey(t, elliptic.P384())
	strange, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := func(key crypto.PublicKey) *pem.Block { return block(t, "PUBLIC KEY")(x509.MarshalPKIXPublicKey(key)) }
	private := func(key *ecdsa.PrivateKey) *pem.Block {
		return block(t, "EC PRIVATE KEY")(x509.MarshalECPrivateKey(key))
	}
	certificate := block(t, "CERTIFICATE")(x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)},
		&x509.Certificate{SerialNumber: big.NewInt(1)}, &two.PublicKey, one))
	parameters := &pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}}
	for name, tc := range map[string]struct {
		blocks []*pem.Block
		want   []crypto.PublicKey
		err    string
	}{
		"a public key":                 {blocks: []*pem.Block{public(&one.PublicKey)}, want: []crypto.PublicKey{&one.PublicKey}},
		"a certificate":                {blocks: []*pem.Block{certificate}, want: []crypto.PublicKey{&two.PublicKey}},
		"a private key of openssl":     {blocks: []*pem.Block{parameters, private(one)}, want: []crypto.PublicKey{&one.PublicKey}},
		"several":                      {blocks: []*pem.Block{public(&one.PublicKey), public(&two.PublicKey)}, want: []crypto.PublicKey{&one.PublicKey, &two.PublicKey}},
		"one twice":                    {blocks: []*pem.Block{public(&one.PublicKey), private(one)}, want: []crypto.PublicKey{&one.PublicKey}},
		"an empty file":                {err: "it holds no ECDSA or RSA key"},
		"nothing but parameters":       {blocks: []*pem.Block{parameters}, err: "it holds no ECDSA or RSA key"},
		"a key and something else":     {blocks: []*pem.Block{public(&one.PublicKey), {Type: "NONSENSE", Bytes: []byte("x")}}, err: "a block of PEM that is no"},
		"a public key of another kind": {blocks: []*pem.Block{public(strange)}, err: "a block of PEM that is no"},
		"a private key of another kind": {
			blocks: []*pem.Block{block(t, "PRIVATE KEY")(x509.MarshalPKCS8PrivateKey(edwards))}, err: "use an ECDSA or RSA key",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := pemFile(t, tc.blocks...)
			tokens, err := New(Config{Issuers: []string{"https://a"}, KeyFiles: []string{file}})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), file) {
					t.Errorf("got %v, want an error with the file and %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			keys := tokens.keys.current(t.Context()).public
			if !slices.EqualFunc(keys, tc.want, func(got publicKey, want crypto.PublicKey) bool {
				return want.(interface{ Equal(crypto.PublicKey) bool }).Equal(got.key)
			}) {
				t.Errorf("got %v, want %v", keys, tc.want)
			}
		})
	}
}

func TestWithoutASigningKeyTokensAreOnlyVerified(t *testing.T) {
	t.Parallel()
	file := keyFile(t, newKey(t, elliptic.P256()))
	w := newWorld(t, file)
	verifier, err := New(Config{Issuers: []string{"https://a"}, KeyFiles: []string{file}, Audiences: []string{"here"}})
	if err != nil {
		t.Fatal(err)
	}
	verifier.Attach(objects{"ns/builder": w.account}, objects{"ns/bound": w.secret})
	if _, good, err := verifier.AuthenticateToken(t.Context(), w.issue(t)); !good {
		t.Errorf("a token of another replica: %v", err)
	}
	if _, err := verifier.IssueLegacy(t.Context(), w.account, w.secret); err == nil {
		t.Error("a token was signed without a key")
	}
	for name, tc := range map[string]struct {
		tokens           *Tokens
		issues, attaches bool
	}{
		"no service accounts": {nil, false, false}, "without a signing key": {verifier, false, true}, "with a signing key": {w.Tokens, true, true},
	} {
		registry := tc.tokens.Registry()
		if tc.tokens.Issues() != tc.issues || (registry.Issuer != nil) != tc.issues || (registry.Attach != nil) != tc.attaches {
			t.Errorf("%s: issues tokens: %t, by the registry %v; want %t", name, tc.tokens.Issues(), registry.Issuer, tc.issues)
		}
	}
}

// TestTheKeyThatATokenNames signs tokens with known keys under several key ids.
func TestTheKeyThatATokenNames(t *testing.T) {
	t.Parallel()
	own, other := newKey(t, elliptic.P256()), newKey(t, elliptic.P256())
	w := newWorld(t, keyFile(t, own), keyFile(t, other))
	keys := w.keys.current(t.Context()).public
	token := w.issue(t)
	parsed, err := jwt.ParseSigned(token, algorithms())
	if err != nil {
		t.Fatal(err)
	}
	var c claims
	if err := parsed.UnsafeClaimsWithoutVerification(&c); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		key  *ecdsa.PrivateKey
		id   string
		good bool
	}{
		"its own":            {own, keys[0].id, true},
		"the other":          {other, keys[1].id, true},
		"that of the other":  {own, keys[1].id, false},
		"one that is gone":   {own, "gone", false},
		"none":               {own, "", true},
		"none, of the other": {other, "", true},
		"none, of a third":   {newKey(t, elliptic.P256()), "", false},
	} {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: tc.key, KeyID: tc.id}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := jwt.Signed(signer).Claims(c).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		w.want(t, name, signed, tc.good)
	}
}

// TestKeysStayTheSameWhileTheirFilesDo matters to tokens that were verified: they are verified again with other keys.
func TestKeysStayTheSameWhileTheirFilesDo(t *testing.T) {
	t.Parallel()
	own, further := keyFile(t, newKey(t, elliptic.P256())), keyFile(t, newKey(t, elliptic.P256()))
	w := newWorld(t, own, further)
	before := w.keys.current(t.Context())
	again := func() *keys {
		w.clock.SetTime(w.clock.Now().Add(keysInterval))
		return w.keys.current(t.Context())
	}
	if again() != before {
		t.Error("the keys of files that have not changed were made again")
	}
	writeKey(t, further, newKey(t, elliptic.P256()))
	if again() == before {
		t.Error("a further key that has changed was not read")
	}
}

// TestAProblemWithKeysIsLoggedOnce reads a file again and again that cannot be used, and that is mended in between.
func TestAProblemWithKeysIsLoggedOnce(t *testing.T) {
	t.Parallel()
	key := newKey(t, elliptic.P256())
	file := keyFile(t, key)
	w := newWorld(t, file)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	for i, step := range []struct {
		garbled bool
		logged  int
	}{{false, 0}, {true, 1}, {true, 1}, {false, 1}, {true, 2}} {
		if writeKey(t, file, key); step.garbled {
			if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		w.clock.SetTime(w.clock.Now().Add(keysInterval))
		if w.keys.current(ctx) == nil {
			t.Errorf("step %d: there are no keys", i)
		}
		if got := len(logger.GetSink().(ktesting.Underlier).GetBuffer().Data()); got != step.logged {
			t.Errorf("step %d: %d lines were logged, want %d", i, got, step.logged)
		}
	}
}
