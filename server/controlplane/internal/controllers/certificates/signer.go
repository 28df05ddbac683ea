// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	informers "k8s.io/client-go/informers/certificates/v1"
	client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	listers "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/controllerloop"
)

const (
	// minValidity is the shortest life that a certificate gets.
	minValidity = 10 * time.Minute
)

// Authority is who issues certificates.
type Authority struct {
	// Issue answers a request with a certificate in PEM that is good for these uses and as long.
	Issue func(request *x509.CertificateRequest, usage x509.KeyUsage, uses []x509.ExtKeyUsage, validity time.Duration) ([]byte, error)
	// Validity is how long certificates are valid at most, and where a request says nothing.
	Validity time.Duration
}

// Signer answers requests for client certificates.
type Signer struct {
	authority Authority
	informer  cache.SharedIndexInformer
	lister    listers.CertificateSigningRequestLister
	client    client.CertificateSigningRequestInterface
}

// NewSigner returns a signer that reads from the informer, which others start.
func NewSigner(authority Authority, informer informers.CertificateSigningRequestInformer, client client.CertificateSigningRequestsGetter) *Signer {
	return &Signer{authority: authority, informer: informer.Informer(), lister: informer.Lister(), client: client.CertificateSigningRequests()}
}

// Run signs until the context ends.
func (s *Signer) Run(ctx context.Context) error {
	return controllerloop.Loop{
		Name: "certificate_signer",
		Sources: []controllerloop.Source{{Informer: s.informer, Keys: func(obj any) []string {
			if csr := obj.(*certificatesv1.CertificateSigningRequest); waits(csr) {
				return []string{csr.Name}
			}
			return nil
		}}},
		Reconcile: func(ctx context.Context, name string) error {
			err := s.sync(ctx, name)
			if err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "A certificate could not be issued; trying again", "certificateSigningRequest", name)
			}
			return err
		},
	}.Run(ctx)
}

// waits tells whether a request is approved and for this signer, and has no answer yet.
func waits(csr *certificatesv1.CertificateSigningRequest) bool {
	return csr.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName && len(csr.Status.Certificate) == 0 &&
		has(csr, certificatesv1.CertificateApproved) && !has(csr, certificatesv1.CertificateDenied) && !has(csr, certificatesv1.CertificateFailed)
}

func has(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) bool {
	for _, condition := range csr.Status.Conditions {
		if condition.Type == kind && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func (s *Signer) sync(ctx context.Context, name string) error {
	stored, err := s.lister.Get(name)
	if apierrors.IsNotFound(err) || err == nil && !waits(stored) {
		return nil
	}
	if err != nil {
		return err
	}
	csr := stored.DeepCopy()
	usage, uses, err := usages(csr.Spec.Usages)
	if err != nil {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue,
			Reason: "SignerValidationFailure", Message: err.Error(), LastUpdateTime: metav1.Now(),
		})
	} else if csr.Status.Certificate, err = s.answer(csr.Spec, usage, uses); err != nil {
		return err
	}
	if _, err = s.client.UpdateStatus(ctx, csr, metav1.UpdateOptions{}); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // Seen again as it is then.
	}
	return err
}

func (s *Signer) answer(spec certificatesv1.CertificateSigningRequestSpec, usage x509.KeyUsage, uses []x509.ExtKeyUsage) ([]byte, error) {
	block, _ := pem.Decode(spec.Request)
	if block == nil {
		return nil, errors.New("spec.request is no PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read spec.request: %w", err)
	}
	validity := s.authority.Validity
	if spec.ExpirationSeconds != nil {
		validity = min(validity, max(minValidity, time.Duration(*spec.ExpirationSeconds)*time.Second))
	}
	return s.authority.Issue(request, usage, uses, validity)
}

// usages translates what a client certificate may be used for. The error says what it may not.
func usages(asked []certificatesv1.KeyUsage) (usage x509.KeyUsage, uses []x509.ExtKeyUsage, err error) {
	for _, one := range asked {
		switch one {
		case certificatesv1.UsageDigitalSignature:
			usage |= x509.KeyUsageDigitalSignature
		case certificatesv1.UsageKeyEncipherment:
			usage |= x509.KeyUsageKeyEncipherment
		case certificatesv1.UsageClientAuth:
			uses = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		default:
			return 0, nil, fmt.Errorf("invalid usage for client certificate: %s", one)
		}
	}
	if uses == nil {
		return 0, nil, fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return usage, uses, nil
}
