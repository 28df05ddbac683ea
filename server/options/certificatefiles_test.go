// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/kube-annex/annex/server/pki"
)

// told counts how often a listener is told about a new certificate.
type told chan struct{}

func (t told) Enqueue() { t <- struct{}{} }

func TestCertificateFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	put := func(certPEM, keyPEM []byte) {
		t.Helper()
		for file, content := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
			// Half-written files would be problems of their own, each with a line in the log.
			if err := os.WriteFile(file+".new", content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(file+".new", file); err != nil {
				t.Fatal(err)
			}
		}
	}
	firstCert, firstKey := newPair(t)
	put(firstCert, firstKey)
	files, err := newCertificateFiles(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	files.interval = time.Millisecond
	changes := make(told, 10)
	files.AddListener(changes)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	ended := make(chan struct{})
	go func() { defer close(ended); files.Run(ctx, 1) }()
	defer func() { cancel(); <-ended }()

	// The certificate of one pair and the key of another: the first pair stays, and that is said once.
	secondCert, secondKey := newPair(t)
	put(secondCert, firstKey)
	log := func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
	waitUntil(t, func() bool { return bytes.Contains([]byte(log()), []byte("serving with the last good one")) })
	if certPEM, _ := files.CurrentCertKeyContent(); !bytes.Equal(certPEM, firstCert) {
		t.Error("a certificate without its key is served")
	}
	put(secondCert, secondKey)
	select {
	case <-changes:
	case <-time.After(time.Minute):
		t.Fatal("the new certificate was not noticed")
	}
	if certPEM, keyPEM := files.CurrentCertKeyContent(); !bytes.Equal(certPEM, secondCert) || !bytes.Equal(keyPEM, secondKey) {
		t.Error("the new certificate is not served")
	}
	if said := bytes.Count([]byte(log()), []byte("serving with the last good one")); said != 1 {
		t.Errorf("the same problem was logged %d times", said)
	}
}

func newPair(t *testing.T) (certPEM, keyPEM []byte) {
	t.Helper()
	certPEM, keyPEM, err := pki.SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	return certPEM, keyPEM
}

func waitUntil(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within a minute")
		}
		<-ticker.C
	}
}
