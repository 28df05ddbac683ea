// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/informers"

	"github.com/kube-annex/annex/server/controlplane/controllers/defaultaccounts"
	"github.com/kube-annex/annex/server/controlplane/controllers/rootca"
	"github.com/kube-annex/annex/server/controlplane/controllers/tokensecrets"
)

// rootCA returns what reads the authorities that the server is known by, or nil where nobody has said which these are.
func (o *completedOptions) rootCA(serving dynamiccertificates.CertKeyContentProvider) func() ([]byte, error) {
	if file := o.ServiceAccounts.RootCAFile; file != "" {
		return func() ([]byte, error) {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read --root-ca-file: %w", err)
			}
			return content, nil
		}
	}
	if serving == nil {
		return nil
	}
	certificate, _ := serving.CurrentCertKeyContent()
	block, _ := pem.Decode(certificate)
	if block == nil {
		return nil
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !bytes.Equal(parsed.RawIssuer, parsed.RawSubject) {
		return nil
	}
	own := pem.EncodeToMemory(block)
	return func() ([]byte, error) { return own, nil }
}

func (s *Server) defaultAccounts(t *term) (func(context.Context) error, error) {
	return defaultaccounts.New(t.client.CoreV1(), t.informers.Core().V1().Namespaces(), t.informers.Core().V1().ServiceAccounts()).Run, nil
}

func (s *Server) publishRootCA(t *term) (func(context.Context) error, error) {
	some := t.selected(metav1.ObjectNameField, rootca.ConfigMapName)
	return withInformers(some, rootca.New(t.client.CoreV1(), t.informers.Core().V1().Namespaces(), some.Core().V1().ConfigMaps(), s.rootCA).Run), nil
}

func (s *Server) tokenSecrets(t *term) (func(context.Context) error, error) {
	some := t.selected("type", string(corev1.SecretTypeServiceAccountToken))
	secrets, err := tokensecrets.New(t.client.CoreV1(), t.informers.Core().V1().ServiceAccounts(), some.Core().V1().Secrets(), s.tokens.IssueLegacy, s.rootCA)
	if err != nil {
		return nil, err
	}
	return withInformers(some, secrets.Run), nil
}

// selected returns informers of objects with one value in a field. Those that are shared know all objects.
func (t *term) selected(name, value string) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(listed{t.client}, informerResync, informers.WithTransform(withoutManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = fields.OneTermEqualSelector(name, value).String() }))
}

// withInformers has informers run for as long as what follows them.
func withInformers(followed informers.SharedInformerFactory, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		followed.Start(ctx.Done())
		defer followed.Shutdown()
		defer cancel()
		return run(ctx)
	}
}
