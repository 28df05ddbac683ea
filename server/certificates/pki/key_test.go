// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"os"
	"strings"
	"testing"
)

func TestKeyIsKeptAndNeverReplaced(t *testing.T) {
	t.Parallel()
	directory, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	read := func() string {
		t.Helper()
		file, err := directory.Key("signing")
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("mode of %s is %o, want 600", file, mode)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	made := read()
	key, err := parseKey([]byte(made))
	if ecKey, ok := key.(*ecdsa.PrivateKey); err != nil || !ok || ecKey.Curve != elliptic.P256() {
		t.Errorf("made %T, %v, want a P-256 key", key, err)
	}
	if err := os.Chmod(directory.keyFile("signing"), 0o644); err != nil {
		t.Fatal(err)
	}
	if kept := read(); kept != made {
		t.Error("the key was replaced")
	}
	if err := os.WriteFile(directory.keyFile("signing"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := directory.Key("signing"); err == nil || !strings.Contains(err.Error(), "delete it to make a new one") {
		t.Errorf("a damaged key: got %v, want an error that tells what to do", err)
	}
	if content, err := os.ReadFile(directory.keyFile("signing")); err != nil || string(content) != "garbage" {
		t.Errorf("the damaged key was replaced: %v", err)
	}
}
