// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestRenewal has a clock that moves between two starts, or while a process runs, back as well as forth.
func TestRenewal(t *testing.T) {
	t.Parallel()
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	for name, tc := range map[string]struct {
		moves           time.Duration
		leaf, authority bool
	}{
		"at once":                                   {},
		"shortly before two thirds of a leaf":       {moves: 2*year*2/3 - day},
		"shortly after two thirds of a leaf":        {moves: 2*year*2/3 + day, leaf: true},
		"after the end of a leaf":                   {moves: 3 * year, leaf: true},
		"shortly before two thirds of an authority": {moves: 10*year*2/3 - day, leaf: true},
		"shortly after two thirds of an authority":  {moves: 10*year*2/3 + day, leaf: true, authority: true},
		"after the end of an authority":             {moves: 11 * year, leaf: true, authority: true},
		"a clock that was a little fast":            {moves: -59 * time.Minute},
		"a clock that was years fast":               {moves: -4 * year, leaf: true, authority: true},
	} {
		for how, restart := range map[string]bool{"running": false, "restarted": true} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				clock := clocktesting.NewFakeClock(time.Now())
				lifetimes := NewLifetimes()
				lifetimes.Clock = clock
				dir := filepath.Join(t.TempDir(), "pki")
				authority, leaf := issued(t, dir, lifetimes)
				before := authority.issuer()

				clock.SetTime(clock.Now().Add(tc.moves))
				if restart {
					authority, _ = issued(t, dir, lifetimes)
				} else if renewed, err := authority.Renew(); err != nil || renewed != tc.authority {
					t.Errorf("Renew returned %t, %v, want %t", renewed, err, tc.authority)
				}
				pair, err := authority.Client("leaf", "someone")
				if err != nil {
					t.Fatal(err)
				}
				after := leafOf(t, pair)
				if got := !leaf.Equal(after); got != tc.leaf {
					t.Errorf("the leaf was made anew: %t, want %t", got, tc.leaf)
				}
				if got := !before.Equal(authority.issuer()); got != tc.authority {
					t.Errorf("the authority was renewed: %t, want %t", got, tc.authority)
				}
				if !samePublicKey(before.PublicKey, authority.issuer().PublicKey) {
					t.Error("the authority has another key")
				}
				roots := x509.NewCertPool()
				roots.AppendCertsFromPEM(authority.CertPEM())
				if _, err := after.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: clock.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
					t.Errorf("the leaf is not trusted: %v", err)
				}
			})
		}
	}
}

// issued opens the directory as a start does.
func issued(t *testing.T, dir string, lifetimes Lifetimes) (*Authority, *x509.Certificate) {
	t.Helper()
	directory, err := OpenFor(dir, lifetimes)
	if err != nil {
		t.Fatal(err)
	}
	authority := newAuthority(t, directory)
	pair, err := authority.Client("leaf", "someone")
	if err != nil {
		t.Fatal(err)
	}
	return authority, leafOf(t, pair)
}
