// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"github.com/kube-annex/annex/internal/logonce"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/internal/options"
)

const (
	// retry is how soon a host that did not answer is asked again.
	retry = 2 * time.Second
	// timeout is how long a pass may take, a host that does not answer included.
	timeout = 30 * time.Second
	// authorityName is the common name of all authorities; they differ in their keys.
	authorityName = "annex-serving-ca"
)

// Certificate is a serving certificate that renews itself while Run runs.
type Certificate struct {
	options   Options
	service   options.Service
	hosts     []string
	store     store
	publisher *publisher

	mu        sync.Mutex
	current   leaf
	problem   error
	listeners []dynamiccertificates.Listener

	// logged is used by Run only, like what follows.
	logged logonce.Error
	// signers are the authorities as they were last read, for while the host is away, and published reports whether the host was given them.
	signers   []*pki.Signer
	published bool
}

var _ dynamiccertificates.CertKeyContentProvider = &Certificate{}

// leaf is one serving certificate.
type leaf struct {
	certPEM, keyPEM  []byte
	signer           *pki.Signer // nil for the one that is used before the authorities are known
	issued, notAfter time.Time
}

// New returns a certificate for the service and this machine, signed by itself until Run has read the authorities. The
// names are those of the APIServices whose CA bundle it keeps.
func New(o Options, service options.Service, host *rest.Config, apiServices []string) (*Certificate, error) {
	c := &Certificate{
		options: o,
		service: service,
		hosts:   []string{service.DNSName(), service.Name + "." + service.Namespace, "localhost", "127.0.0.1", "::1"},
		problem: errors.New("the authorities of the serving certificate have not been read yet"),
	}
	registrations, err := apiregistrationclient.NewForConfig(host)
	if err != nil {
		return nil, fmt.Errorf("make a client of the host's APIServices: %w", err)
	}
	c.publisher = &publisher{client: registrations, service: service, names: apiServices}
	if o.Directory != "" {
		c.store = directoryStore{path: o.Directory}
	} else {
		secrets, secretsErr := corev1client.NewForConfig(host)
		if secretsErr != nil {
			return nil, fmt.Errorf("make a client of the host's Secrets: %w", secretsErr)
		}
		c.store = &secretStore{client: secrets, service: service}
	}
	if c.current.certPEM, c.current.keyPEM, err = pki.SelfSigned(c.hosts...); err != nil {
		return nil, fmt.Errorf("make a first serving certificate: %w", err)
	}
	return c, nil
}

// Name is for the log.
func (c *Certificate) Name() string { return "serving-certificate" }

// CurrentCertKeyContent returns the certificate and its key in PEM.
func (c *Certificate) CurrentCertKeyContent() (certPEM, keyPEM []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.certPEM, c.current.keyPEM
}

// AddListener tells the listener about each new certificate.
func (c *Certificate) AddListener(listener dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, listener)
}

// Check is a readiness check: nobody trusts the certificate before its authorities are known.
func (c *Certificate) Check(*http.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.signer == nil {
		return c.problem
	}
	if !time.Now().Before(c.current.notAfter) {
		return fmt.Errorf("the serving certificate has expired: %w", c.problem)
	}
	return nil
}

// Run renews the certificate and its authorities until the context ends.
func (c *Certificate) Run(ctx context.Context) {
	for {
		wait := c.pass(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// pass renews what is due, and returns when to look again.
func (c *Certificate) pass(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	soon := min(retry, c.options.interval())
	signers, err := c.authorities(ctx)
	if errors.Is(err, errChanged) {
		return soon
	}
	if err != nil {
		// The certificate must not expire while the host is away.
		c.report(ctx, errors.Join(err, c.renew(ctx)))
		return soon
	}
	bundle, _ := pki.EncodeSigners(signers)
	missing, unpublished := c.publisher.publish(ctx, bundle)
	c.signers, c.published = signers, unpublished == nil
	if err := c.renew(ctx); err != nil {
		c.report(ctx, err)
		return soon
	}
	if unpublished == nil && missing != nil {
		if names := strings.Join(missing, ", "); c.logged.ChangedText("missing " + names) {
			klog.FromContext(ctx).Info("The cluster does not send requests here yet; run `annex register`", "missing", names)
		}
		return soon
	}
	c.report(ctx, unpublished)
	if unpublished != nil {
		return soon
	}
	return c.options.interval()
}

// authorities reads them, and makes a first or a next one where that is due.
func (c *Certificate) authorities(ctx context.Context) ([]*pki.Signer, error) {
	signers, err := c.store.read(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now().Round(0) // what certificates say is about the time of day, which may be set back
	var next []*pki.Signer
	if len(signers) == 0 || early(signers[0].Made(), now) || now.After(due(signers[0].Made(), signers[0].NotAfter())) {
		made, err := pki.NewSigner(authorityName, c.options.AuthorityLifetime)
		if err != nil {
			return nil, fmt.Errorf("make an authority for serving certificates: %w", err)
		}
		next = append(next, made)
	}
	next = append(next, valid(signers, now)...)
	if len(next) == len(signers) && next[0].Equal(signers[0]) {
		return signers, nil
	}
	if err := c.store.write(ctx, next); err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("The authorities of the serving certificates have changed", "authorities", len(next), "newestExpires", next[0].NotAfter())
	return next, nil
}

// valid returns the authorities that have not expired.
func valid(signers []*pki.Signer, now time.Time) []*pki.Signer {
	return slices.DeleteFunc(slices.Clone(signers), func(signer *pki.Signer) bool {
		return !now.Before(signer.NotAfter()) || early(signer.Made(), now)
	})
}

// early tells whether something was made by a clock that was so much ahead of this one that nobody takes it for valid yet.
func early(made, now time.Time) bool { return made.Sub(now) >= pki.ClockSkew }

// due is two thirds of the way to the end.
func due(from, to time.Time) time.Time { return from.Add(to.Sub(from) * 2 / 3) }

// choose returns the newest authority that the host has had time to read. One that it could not be told about is only
// used when its predecessor is about to expire.
func choose(signers []*pki.Signer, now time.Time, o Options, published bool) *pki.Signer {
	for i, signer := range signers {
		last := i == len(signers)-1
		if last || published && now.Sub(signer.Made()) >= o.settling() || signers[i+1].NotAfter().Sub(now) < o.AuthorityLifetime/10 {
			return signer
		}
	}
	return nil
}

// renew issues a certificate where the current one is two thirds through, or signed by another authority.
func (c *Certificate) renew(ctx context.Context) error {
	now := time.Now().Round(0) // what certificates say is about the time of day, which may be set back
	signer := choose(valid(c.signers, now), now, c.options, c.published)
	if signer == nil {
		return nil
	}
	c.mu.Lock()
	current := c.current
	c.mu.Unlock()
	if signer.Equal(current.signer) && now.Before(due(current.issued, current.notAfter)) && !early(current.issued, now) {
		return nil
	}
	next := leaf{signer: signer, issued: now}
	var err error
	if next.certPEM, next.keyPEM, next.notAfter, err = signer.Serving(c.service.DNSName(), c.options.Lifetime, c.hosts...); err != nil {
		return fmt.Errorf("issue a serving certificate: %w", err)
	}
	c.mu.Lock()
	c.current = next
	listeners := c.listeners
	c.mu.Unlock()
	for _, listener := range listeners {
		listener.Enqueue()
	}
	klog.FromContext(ctx).Info("Serving with a new certificate", "expires", next.notAfter)
	return nil
}

// report keeps the problem for readiness, and logs it when it is not the same as before.
func (c *Certificate) report(ctx context.Context, problem error) {
	c.mu.Lock()
	c.problem = problem
	c.mu.Unlock()
	if c.logged.Changed(problem) && problem != nil {
		klog.FromContext(ctx).Error(problem, "The serving certificate cannot be kept up to date; trying again")
	}
}
