// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/internal/options"
)

// errChanged is returned by a store when another replica has written since the last read.
var errChanged = errors.New("another replica was faster")

// store keeps authorities, the newest first.
type store interface {
	// read returns nothing where nothing was written yet.
	read(ctx context.Context) ([]*pki.Signer, error)
	// write replaces what the last read has returned.
	write(ctx context.Context, signers []*pki.Signer) error
}

// authoritiesFile is the file in a directory, without its extension.
const authoritiesFile = "serving-authorities"

type directoryStore struct{ path string }

func (s directoryStore) read(context.Context) ([]*pki.Signer, error) {
	directory, err := pki.Open(s.path)
	if err != nil {
		return nil, err
	}
	return directory.LoadSigners(authoritiesFile)
}

func (s directoryStore) write(_ context.Context, signers []*pki.Signer) error {
	directory, err := pki.Open(s.path)
	if err != nil {
		return err
	}
	return directory.SaveSigners(authoritiesFile, signers)
}

const (
	certificatesKey = "ca.crt"
	keysKey         = "ca.key"
)

type secretStore struct {
	client  corev1client.SecretsGetter
	service options.Service
	last    *corev1.Secret // nil where there was none
}

func (s *secretStore) read(ctx context.Context) ([]*pki.Signer, error) {
	secret, err := s.client.Secrets(s.service.Namespace).Get(ctx, s.service.AuthoritySecret(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.last = nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the Secret %s/%s with the authorities of the serving certificates: %w",
			s.service.Namespace, s.service.AuthoritySecret(), advise(err))
	}
	s.last = secret
	signers, err := pki.ReadSigners(secret.Data[certificatesKey], secret.Data[keysKey])
	if err != nil {
		return nil, fmt.Errorf("the authorities of serving certificates in Secret %s/%s cannot be used: %w; restore them from a backup, or delete %s and %s from it to make new ones",
			s.service.Namespace, s.service.AuthoritySecret(), err, certificatesKey, keysKey)
	}
	return signers, nil
}

func (s *secretStore) write(ctx context.Context, signers []*pki.Signer) error {
	certsPEM, keysPEM := pki.EncodeSigners(signers)
	data := map[string][]byte{certificatesKey: certsPEM, keysKey: keysPEM}
	secrets := s.client.Secrets(s.service.Namespace)
	var err error
	if s.last == nil {
		// `annex register` makes it; the right to do so here is not among those that it gives.
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.service.AuthoritySecret()}, Data: data}, metav1.CreateOptions{})
	} else {
		next := s.last.DeepCopy()
		next.Data = data
		_, err = secrets.Update(ctx, next, metav1.UpdateOptions{})
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return errChanged
	case s.last == nil:
		return fmt.Errorf("there is no Secret %s/%s for the authorities of the serving certificates, and it cannot be made: %w; "+
			"run `annex register`, or keep them in a directory with --cert-dir", s.service.Namespace, s.service.AuthoritySecret(), err)
	}
	return fmt.Errorf("write the Secret %s/%s with the authorities of the serving certificates: %w",
		s.service.Namespace, s.service.AuthoritySecret(), advise(err))
}

// advise says what gives the server the rights that it lacks.
func advise(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; run `annex register`, with --user if this server is not the service account", err)
	}
	return err
}
