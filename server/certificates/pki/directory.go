// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"
)

// Lifetimes are for how long authorities and what they sign is valid, by which clock.
type Lifetimes struct {
	Leaf, Authority time.Duration
	Clock           clock.WithTicker
}

// NewLifetimes returns two years for what is signed and ten for authorities.
func NewLifetimes() Lifetimes {
	return Lifetimes{Leaf: leafValidity, Authority: authorityValidity, Clock: clock.RealClock{}}
}

// due tells whether the certificate has used up two thirds of its life, or was made by a clock that was ahead of this one.
func (l Lifetimes) due(cert *x509.Certificate) bool {
	issued, now := cert.NotBefore.Add(ClockSkew), l.Clock.Now()
	return now.Before(cert.NotBefore) || !now.Before(issued.Add(cert.NotAfter.Sub(issued)*2/3))
}

// Directory is a directory of certificates and keys that only its owner can enter.
type Directory struct {
	path      string
	lifetimes Lifetimes
}

// Open creates the directory where it does not exist and closes it to other users (mode 0700).
func Open(dir string) (*Directory, error) { return OpenFor(dir, NewLifetimes()) }

// OpenFor is Open for certificates with lifetimes of one's own.
func OpenFor(dir string, lifetimes Lifetimes) (*Directory, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create certificate directory: %w", err)
	}
	// An existing directory, or an unusual umask, may have left other bits.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("close certificate directory to other users: %w", err)
	}
	return &Directory{path: dir, lifetimes: lifetimes}, nil
}

// Path returns where the directory is.
func (d *Directory) Path() string { return d.path }

func (d *Directory) certFile(name string) string { return filepath.Join(d.path, name+".crt") }
func (d *Directory) keyFile(name string) string  { return filepath.Join(d.path, name+".key") }

// WriteFile replaces path in one step, so that a reader or a crash sees the old content or the new, never a half.
func WriteFile(path string, content []byte, mode os.FileMode) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = temporary.Close()
			_ = os.Remove(temporary.Name())
		}
	}()
	// CreateTemp makes 0600 minus the umask; Chmod makes the mode exact whatever the umask.
	if err = temporary.Chmod(mode); err != nil {
		return err
	}
	if _, err = temporary.Write(content); err != nil {
		return err
	}
	if err = temporary.Sync(); err != nil {
		return err
	}
	if err = temporary.Close(); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
