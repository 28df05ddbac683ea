// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certfile serves certificates from files and reloads the files.
//
// It replaces dynamiccertificates.NewDynamicServingContentFromFiles, which watches inodes: that does not notice a symbolic link that is
// replaced while its former target stays, as certbot does. It also starts goroutines in its constructor, and logs each failed attempt again.
package certfile

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/internal/logonce"
)

// reloadInterval is the interval at which files are read.
const reloadInterval = 2 * time.Second

// KeyPair is a certificate with its key in files. Invalid files leave the last valid certificate in place.
type KeyPair struct {
	certFile, keyFile string
	interval          time.Duration

	mu              sync.Mutex
	certPEM, keyPEM []byte
	listeners       []dynamiccertificates.Listener

	// logged is used by Run only.
	logged logonce.Error
}

var (
	_ dynamiccertificates.CertKeyContentProvider = &KeyPair{}
	_ dynamiccertificates.ControllerRunner       = &KeyPair{}
)

// New reads the files and fails if they are not valid.
func New(certFile, keyFile string) (*KeyPair, error) {
	p := &KeyPair{certFile: certFile, keyFile: keyFile, interval: reloadInterval}
	if _, err := p.load(); err != nil {
		return nil, fmt.Errorf("load the serving certificate: %w", err)
	}
	return p, nil
}

// load reads the files and reports whether they have changed.
func (p *KeyPair) load() (changed bool, err error) {
	certPEM, err := os.ReadFile(p.certFile)
	if err != nil {
		return false, err
	}
	keyPEM, err := os.ReadFile(p.keyFile)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes.Equal(certPEM, p.certPEM) && bytes.Equal(keyPEM, p.keyPEM) {
		return false, nil
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return false, err
	}
	p.certPEM, p.keyPEM = certPEM, keyPEM
	return true, nil
}

// Name implements dynamiccertificates.CertKeyContentProvider.
func (p *KeyPair) Name() string {
	return "serving-certificate::" + p.certFile + "::" + p.keyFile
}

// CurrentCertKeyContent returns the last valid certificate and its key in PEM.
func (p *KeyPair) CurrentCertKeyContent() (certPEM, keyPEM []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.certPEM, p.keyPEM
}

// AddListener adds a listener that is notified of each new certificate.
func (p *KeyPair) AddListener(listener dynamiccertificates.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners = append(p.listeners, listener)
}

// RunOnce does nothing: New has read the files.
func (p *KeyPair) RunOnce(context.Context) error { return nil }

// Run reloads the files until the context ends.
func (p *KeyPair) Run(ctx context.Context, _ int) {
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.reload(ctx)
		}
	}
}

func (p *KeyPair) reload(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("certFile", p.certFile, "keyFile", p.keyFile)
	changed, err := p.load()
	if p.logged.Changed(err) && err != nil {
		logger.Error(err, "The serving certificate in the files cannot be used; serving with the last good one")
	}
	if !changed {
		return
	}
	logger.Info("Serving with the new certificate in the files")
	p.mu.Lock()
	listeners := p.listeners
	p.mu.Unlock()
	for _, listener := range listeners {
		listener.Enqueue()
	}
}
