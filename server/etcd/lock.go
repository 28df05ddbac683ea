// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Lock is the right to use a data directory.
type Lock struct {
	file *os.File
}

// LockDataDir makes the directory where it is missing, closes it to others (mode 0700) and takes its lock, which ends with the
// process at the latest. The error names the process that holds it.
func LockDataDir(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("close the data directory to other users: %w; choose a --data-dir that belongs to you", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := holderOf(file)
		closeErr := file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("data directory %s is in use by %s; stop it or choose another --data-dir", dir, holder), closeErr)
		}
		return nil, errors.Join(fmt.Errorf("lock data directory %s: %w", dir, err), closeErr)
	}
	lock := &Lock{file: file}
	if err := lock.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("write the lock of data directory %s: %w", dir, err), lock.Unlock())
	}
	return lock, nil
}

// sign writes the process id into the lock file, for others to name.
func (l *Lock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Unlock gives the directory free. A nil lock has nothing to give.
func (l *Lock) Unlock() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

func holderOf(file *os.File) string {
	content, err := io.ReadAll(io.LimitReader(file, 32))
	if err != nil || len(content) == 0 {
		return "another process"
	}
	return "process " + strings.TrimSpace(string(content))
}
