// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	informers "k8s.io/client-go/informers/certificates/v1"
	client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	listers "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// cleanInterval is how often requests are looked at.
	cleanInterval = time.Hour
	// keptWaiting is how long a request waits to be approved, or an approved one for its signer.
	keptWaiting = 24 * time.Hour
	// keptAnswered is how long a request is kept after it was issued, denied or failed.
	keptAnswered = time.Hour
)

// Cleaner removes requests that have been answered, or waited in vain.
type Cleaner struct {
	synced cache.InformerSynced
	lister listers.CertificateSigningRequestLister
	client client.CertificateSigningRequestInterface
	clock  clock.WithTicker
}

// NewCleaner returns a cleaner that reads from the informer, which others start.
func NewCleaner(informer informers.CertificateSigningRequestInformer, client client.CertificateSigningRequestsGetter, clock clock.WithTicker) *Cleaner {
	return &Cleaner{
		synced: informer.Informer().HasSynced, lister: informer.Lister(), client: client.CertificateSigningRequests(), clock: clock,
	}
}

// Run cleans up until the context ends.
func (c *Cleaner) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return nil
	}
	ticker := c.clock.NewTicker(cleanInterval)
	defer ticker.Stop()
	for {
		c.clean(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

func (c *Cleaner) clean(ctx context.Context) {
	logger := klog.FromContext(ctx)
	all, err := c.lister.List(labels.Everything())
	if err != nil {
		logger.Error(err, "CertificateSigningRequests could not be listed; trying again", "after", cleanInterval)
		return
	}
	for _, csr := range all {
		why := useless(csr, c.clock.Now())
		if why == "" {
			continue
		}
		// Only what was looked at: a request of the same name may have been made since.
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &csr.UID, ResourceVersion: &csr.ResourceVersion}}
		if err := c.client.Delete(ctx, csr.Name, options); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			logger.Error(err, "A CertificateSigningRequest could not be removed; trying again", "certificateSigningRequest", csr.Name, "after", cleanInterval)
			continue
		}
		logger.V(2).Info("CertificateSigningRequest removed", "certificateSigningRequest", csr.Name, "reason", why)
	}
}

// useless tells why a request can go; empty means that it stays.
func useless(csr *certificatesv1.CertificateSigningRequest, now time.Time) string {
	issued := len(csr.Status.Certificate) > 0
	older := func(t metav1.Time, kept time.Duration) bool { return !t.IsZero() && now.Sub(t.Time) > kept }
	if len(csr.Status.Conditions) == 0 && older(csr.CreationTimestamp, keptWaiting) {
		return "nobody approved it"
	}
	for _, condition := range csr.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateApproved:
			switch {
			case issued && expired(csr.Status.Certificate, now):
				return "its certificate has expired"
			case issued && older(condition.LastUpdateTime, keptAnswered):
				return "its certificate was issued"
			case !issued && older(condition.LastUpdateTime, keptWaiting):
				return "nobody signed it"
			}
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			if older(condition.LastUpdateTime, keptAnswered) {
				return "it was denied, or failed"
			}
		}
	}
	return ""
}

func expired(certificate []byte, now time.Time) bool {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return false
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.After(parsed.NotAfter)
}
