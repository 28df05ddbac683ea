// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Key returns the file of a private key without a certificate, <name>.key, and makes it where it does not exist. It never replaces
// one: what a key has signed is worth nothing without it, so a damaged key is an error.
func (d *Directory) Key(name string) (string, error) {
	file := d.keyFile(name)
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, makeKey(file)
	}
	if err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	if _, err = parseKey(content); err != nil {
		return "", fmt.Errorf("key file %s cannot be used: %w; restore it from a backup, or delete it to make a new one (what it has signed is then refused)", file, err)
	}
	if err = os.Chmod(file, 0o600); err != nil {
		return "", fmt.Errorf("close key to other users: %w", err)
	}
	return file, nil
}

func makeKey(file string) error {
	_, content, err := newKey()
	if err != nil {
		return err
	}
	if err = WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return nil
}
