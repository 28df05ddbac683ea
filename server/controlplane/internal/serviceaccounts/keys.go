// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccounts

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/internal/logonce"
)

// keysInterval is how often key files are read again, at most.
const keysInterval = 2 * time.Second

// keyFiles are the files with the keys. They are read again when keys are asked for, so that nothing runs for them. Files that
// cannot be used leave the last good keys in place.
type keyFiles struct {
	signing string
	public  []string
	clock   clock.PassiveClock

	mu       sync.Mutex
	read     time.Time
	contents [][]byte
	keys     *keys
	logged   logonce.Error
}

// keys are what one state of the files holds.
type keys struct {
	// signer is nil where tokens are only verified.
	signer jose.Signer
	public []publicKey
}

type publicKey struct {
	id        string
	algorithm jose.SignatureAlgorithm
	key       crypto.PublicKey
}

func newKeyFiles(signing string, public []string, clock clock.PassiveClock) (*keyFiles, error) {
	f := &keyFiles{signing: signing, public: public, clock: clock}
	return f, f.load()
}

// current returns the keys as the files have them now, or had them when they could be used last.
func (f *keyFiles) current(ctx context.Context) *keys {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clock.Since(f.read) < keysInterval {
		return f.keys
	}
	err := f.load()
	if f.logged.Changed(err) && err != nil {
		klog.FromContext(ctx).Error(err, "Keys of service account tokens cannot be used; going on with the last good ones")
	}
	return f.keys
}

// load reads the files, and makes keys of them if they have changed.
func (f *keyFiles) load() error {
	f.read = f.clock.Now()
	var contents [][]byte
	for _, file := range append([]string{f.signing}, f.public...) {
		var content []byte
		if file != "" {
			var err error
			if content, err = os.ReadFile(file); err != nil {
				return fmt.Errorf("read a key: %w", err)
			}
		}
		contents = append(contents, content)
	}
	same := func(i int) bool { return bytes.Equal(contents[i], f.contents[i]) }
	if len(f.contents) == len(contents) && all(len(contents), same) {
		return nil
	}
	loaded, err := f.parse(contents)
	if err != nil {
		return err
	}
	f.contents, f.keys = contents, loaded
	return nil
}

func all(n int, holds func(int) bool) bool {
	for i := range n {
		if !holds(i) {
			return false
		}
	}
	return true
}

func (f *keyFiles) parse(contents [][]byte) (*keys, error) {
	k := &keys{}
	if f.signing != "" {
		if err := k.setSigner(contents[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", f.signing, err)
		}
	}
	for i, file := range f.public {
		if err := k.addPublic(contents[i+1]); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return k, nil
}

// setSigner has tokens signed with the private key, which verifies as well.
func (k *keys) setSigner(content []byte) error {
	private, err := keyutil.ParsePrivateKeyPEM(content)
	if err != nil {
		return errors.New("it holds no private ECDSA or RSA key in PEM; make one with: openssl ecparam -name prime256v1 -genkey -noout -out FILE")
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return fmt.Errorf("its key, a %T, cannot sign; use an ECDSA key", private)
	}
	if err = k.add(signer.Public()); err != nil {
		return err
	}
	own := k.public[len(k.public)-1]
	k.signer, err = jose.NewSigner(jose.SigningKey{
		Algorithm: own.algorithm,
		Key:       jose.JSONWebKey{Key: private, KeyID: own.id, Algorithm: string(own.algorithm), Use: "sig"},
	}, nil)
	if err != nil {
		return fmt.Errorf("its key cannot sign: %w", err)
	}
	return nil
}

func (k *keys) addPublic(content []byte) error {
	held := 0
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			break
		}
		if block.Type == "EC PARAMETERS" {
			continue
		}
		found, err := publicKeys(pem.EncodeToMemory(block))
		if err != nil {
			return err
		}
		for _, key := range found {
			if err := k.add(key); err != nil {
				return err
			}
			held++
		}
	}
	if held == 0 {
		return errors.New("it holds no ECDSA or RSA key in PEM; give public or private keys, or certificates")
	}
	return nil
}

// publicKeys returns what is in one block of PEM: a public key, a certificate or a private key.
func publicKeys(block []byte) ([]any, error) {
	if found, err := keyutil.ParsePublicKeysPEM(block); err == nil {
		return found, nil
	}
	private, err := keyutil.ParsePrivateKeyPEM(block)
	if signer, ok := private.(crypto.Signer); ok && err == nil {
		return []any{signer.Public()}, nil
	}
	return nil, errors.New("it holds a block of PEM that is no ECDSA or RSA key; give public or private keys, or certificates")
}

// add adds a public key, once.
func (k *keys) add(key crypto.PublicKey) error {
	algorithm, err := algorithmOf(key)
	if err != nil {
		return err
	}
	id, err := keyID(key)
	if err != nil {
		return err
	}
	if len(k.withID(id)) == 0 {
		k.public = append(k.public, publicKey{id: id, algorithm: algorithm, key: key})
	}
	return nil
}

// withID returns the keys that a token with the key id may be signed with; one without may be signed with any.
func (k *keys) withID(id string) []publicKey {
	if id == "" {
		return k.public
	}
	var found []publicKey
	for _, key := range k.public {
		if key.id == id {
			found = append(found, key)
		}
	}
	return found
}

// set is what others verify tokens by.
func (k *keys) set() jose.JSONWebKeySet {
	var set jose.JSONWebKeySet
	for _, key := range k.public {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.key, KeyID: key.id, Algorithm: string(key.algorithm), Use: "sig"})
	}
	return set
}

// algorithms are all that algorithmOf returns.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.RS256}
}

// algorithmOf returns the one algorithm that a key is used with.
func algorithmOf(key crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", fmt.Errorf("its key is on the curve %s; use P-256, P-384 or P-521", key.Curve.Params().Name)
	}
	return "", fmt.Errorf("its key is a %T; use an ECDSA or RSA key", key)
}

// keyID names a key as upstream does, by a hash that does not give it away.
func keyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encode its public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
