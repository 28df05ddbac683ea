// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// notifications counts the notifications of a listener.
type notifications chan struct{}

func (n notifications) Enqueue() { n <- struct{}{} }

func TestFilesAreReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	put := func(certPEM, keyPEM []byte) {
		t.Helper()
		for file, content := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
			// Files that are written in place would be invalid for a moment, which is logged.
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
	files, err := New(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	files.interval = time.Millisecond
	changes := make(notifications, 10)
	files.AddListener(changes)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	ended := make(chan struct{})
	go func() { defer close(ended); files.Run(ctx, 1) }()
	defer func() { cancel(); <-ended }()

	// A certificate with the key of another one leaves the first pair in place, and is logged once.
	secondCert, secondKey := newPair(t)
	put(secondCert, firstKey)
	log := func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
	waitUntil(t, func() bool { return bytes.Contains([]byte(log()), []byte("serving with the last good one")) })
	if certPEM, _ := files.CurrentCertKeyContent(); !bytes.Equal(certPEM, firstCert) {
		t.Error("a certificate is served without its key")
	}
	put(secondCert, secondKey)
	select {
	case <-changes:
	case <-time.After(time.Minute):
		t.Fatal("the new certificate was not loaded within a minute")
	}
	if certPEM, keyPEM := files.CurrentCertKeyContent(); !bytes.Equal(certPEM, secondCert) || !bytes.Equal(keyPEM, secondKey) {
		t.Error("the new certificate is not served")
	}
	if lines := bytes.Count([]byte(log()), []byte("serving with the last good one")); lines != 1 {
		t.Errorf("the same error was logged %d times, want once", lines)
	}
}

// TestReplacedSymbolicLinksAreFollowed replaces links as certbot does: the former targets stay. A watch of their inodes notices nothing.
func TestReplacedSymbolicLinksAreFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "fullchain.pem"), filepath.Join(dir, "privkey.pem")
	link := func(version string) (certPEM []byte) {
		t.Helper()
		certPEM, keyPEM := newPair(t)
		for file, content := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
			target := file + "." + version
			if err := os.WriteFile(target, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, file+".new"); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(file+".new", file); err != nil {
				t.Fatal(err)
			}
		}
		return certPEM
	}
	link("1")
	files, err := New(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	files.interval = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); files.Run(ctx, 1) }()
	defer func() { cancel(); <-ended }()
	for _, version := range []string{"2", "3"} {
		want := link(version)
		waitUntil(t, func() bool {
			certPEM, _ := files.CurrentCertKeyContent()
			return bytes.Equal(certPEM, want)
		})
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
			t.Fatal("the condition is not true after a minute")
		}
		<-ticker.C
	}
}
