// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

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
)

// certificateFilesInterval is how often files are read again.
const certificateFilesInterval = 2 * time.Second

// certificateFiles is a serving certificate in files, which are read again while serving. Files that cannot be used leave
// the last good certificate in place.
type certificateFiles struct {
	certFile, keyFile string
	interval          time.Duration

	mu              sync.Mutex
	certPEM, keyPEM []byte
	listeners       []dynamiccertificates.Listener

	// said is the last problem in the log; only Run uses it.
	said string
}

var (
	_ dynamiccertificates.CertKeyContentProvider = &certificateFiles{}
	_ dynamiccertificates.ControllerRunner       = &certificateFiles{}
)

func newCertificateFiles(certFile, keyFile string) (*certificateFiles, error) {
	f := &certificateFiles{certFile: certFile, keyFile: keyFile, interval: certificateFilesInterval}
	if _, err := f.load(); err != nil {
		return nil, fmt.Errorf("load the serving certificate: %w", err)
	}
	return f, nil
}

// load reads the files, and tells whether they hold another certificate than before.
func (f *certificateFiles) load() (changed bool, err error) {
	certPEM, err := os.ReadFile(f.certFile)
	if err != nil {
		return false, err
	}
	keyPEM, err := os.ReadFile(f.keyFile)
	if err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if bytes.Equal(certPEM, f.certPEM) && bytes.Equal(keyPEM, f.keyPEM) {
		return false, nil
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return false, err
	}
	f.certPEM, f.keyPEM = certPEM, keyPEM
	return true, nil
}

// Name is for the log.
func (f *certificateFiles) Name() string {
	return "serving-certificate::" + f.certFile + "::" + f.keyFile
}

// CurrentCertKeyContent returns the last good certificate and its key in PEM.
func (f *certificateFiles) CurrentCertKeyContent() (certPEM, keyPEM []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.certPEM, f.keyPEM
}

// AddListener tells the listener about each new certificate.
func (f *certificateFiles) AddListener(listener dynamiccertificates.Listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners = append(f.listeners, listener)
}

// RunOnce has nothing to do: the files were read when the server was set up.
func (f *certificateFiles) RunOnce(context.Context) error { return nil }

// Run reads the files again and again until the context ends.
func (f *certificateFiles) Run(ctx context.Context, _ int) {
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f.reload(ctx)
		}
	}
}

func (f *certificateFiles) reload(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("certFile", f.certFile, "keyFile", f.keyFile)
	changed, err := f.load()
	switch {
	case err != nil && err.Error() != f.said:
		f.said = err.Error()
		logger.Error(err, "The serving certificate in the files cannot be used; serving with the last good one")
	case err == nil:
		f.said = ""
	}
	if !changed {
		return
	}
	logger.Info("Serving with the new certificate in the files")
	f.mu.Lock()
	listeners := f.listeners
	f.mu.Unlock()
	for _, listener := range listeners {
		listener.Enqueue()
	}
}
