// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/klog/v2"
)

// maxSocketPath is what fits into a socket address on Linux.
const maxSocketPath = 107

// socketPath returns where etcd listens: in the data directory, or, since an address has room for little, in a short one that
// Stop removes. etcd does not set the socket's mode, so the directory keeps other users out.
func (b *Backend) socketPath(dataDir string) (string, error) {
	dir := filepath.Join(dataDir, "etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create etcd's directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", fmt.Errorf("close etcd's directory to other users: %w", err)
	}
	socket := filepath.Join(dir, "client.sock")
	if len(socket) <= maxSocketPath {
		return socket, nil
	}
	short, err := shortDir(dataDir)
	if err != nil {
		return "", fmt.Errorf("create a directory for etcd's socket, whose path in the data directory is longer than %d bytes: %w", maxSocketPath, err)
	}
	b.onStop(func() {
		if err := os.RemoveAll(short); err != nil {
			klog.Background().Error(err, "removing the directory of etcd's socket")
		}
	})
	socket = filepath.Join(short, "client.sock")
	if len(socket) > maxSocketPath {
		return "", fmt.Errorf("no room for etcd's socket: both the data directory and %s have paths too long for a socket (%d bytes); choose a shorter --data-dir or set TMPDIR to a short one", os.TempDir(), maxSocketPath)
	}
	return socket, nil
}

// shortDir returns the same directory for the same data directory, so that killed processes do not leave one each. Whoever has
// the data directory's lock may use it.
func shortDir(dataDir string) (string, error) {
	sum := sha256.Sum256([]byte(dataDir))
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("annex-%x", sum[:6]))
	err := os.Mkdir(dir, 0o700)
	if err == nil || (errors.Is(err, fs.ErrExist) && isOurs(dir)) {
		return dir, nil
	}
	// Somebody else sits on the name: take one that nobody can foresee.
	return os.MkdirTemp("", "annex-")
}

// isOurs tells whether a directory belongs to this user and is closed to all others.
func isOurs(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}
