// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

const (
	// lockTimeout is how long a new process waits for the one before it: somewhat longer than the pods of artifacts/deploy get to end, and
	// shorter than they get to start.
	lockTimeout = 80 * time.Second
	// lockRetry is the interval of attempts meanwhile.
	lockRetry = 200 * time.Millisecond
)

// errInUse reports that another process, or another part of this one, has the lock.
var errInUse = errors.New("stop it or choose another --data-dir")

// waitForDataDir is LockDataDir, and tries again for the time given while the directory is in use.
func waitForDataDir(ctx context.Context, dir string, timeout time.Duration) (*Lock, error) {
	lock, err := LockDataDir(dir)
	if !errors.Is(err, errInUse) || timeout <= 0 {
		return lock, err
	}
	klog.FromContext(ctx).Info("Waiting for the data directory to become free", "reason", err.Error(), "timeout", timeout)
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(lockRetry)
	defer ticker.Stop()
	for errors.Is(err, errInUse) {
		select {
		case <-ticker.C:
			lock, err = LockDataDir(dir)
		case <-waiting.Done():
			if ctx.Err() != nil {
				return nil, fmt.Errorf("wait for the data directory: %w", ctx.Err())
			}
			return nil, fmt.Errorf("after %s: %w", timeout, err)
		}
	}
	return lock, err
}

// Lock is the right to use a data directory.
type Lock struct {
	path string
	file *os.File
}

// LockDataDir makes the directory where it is missing, closes it to others (mode 0700) and takes its lock, which ends with the
// process at the latest; the error names the process that holds it, if that can be known. A directory in the format of a newer version is refused.
func LockDataDir(dir string) (*Lock, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w; choose another --data-dir", err)
	}
	if err = closeToOthers(dir); err != nil {
		return nil, err
	}
	lock, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(dir); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return lock, nil
}

// closeToOthers keeps other users out of a directory that is ours or still empty. One that holds something else is left as it
// is: --data-dir /tmp must not take /tmp away from everybody.
func closeToOthers(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the data directory: %w", err)
	}
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the data directory: %w", err)
	}
	ours := slices.ContainsFunc(entries, func(entry os.DirEntry) bool { return entry.Name() == "version" })
	if len(entries) > 0 && !ours {
		return fmt.Errorf("data directory %s is open to other users (mode %#o) and holds other things; run `chmod 700 %s` if it is for annex alone, or choose another --data-dir", dir, mode, dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("data directory %s is open to other users (mode %#o): %w; choose a --data-dir that belongs to you", dir, mode, err)
	}
	return nil
}

func takeLock(dir string) (*Lock, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := holderOf(file)
		closeErr := file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("data directory %s is in use by %s; %w", dir, holder, errInUse), closeErr)
		}
		return nil, errors.Join(fmt.Errorf("lock data directory %s: %w", dir, err), closeErr)
	}
	lock := &Lock{path: path, file: file}
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
	// Closing alone would not do while a child of this process, between its fork and its exec, still has the file open.
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// check tells whether the lock file is still the one in the directory. If somebody removed it, another process could lock the
// same directory.
func (l *Lock) check() error {
	held, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("look at the lock of the data directory: %w", err)
	}
	found, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !os.SameFile(held, found)) {
		return fmt.Errorf("data directory %s was removed or replaced while it was in use; start again on one that stays", filepath.Dir(l.path))
	}
	// Anything else, such as too many open files, says nothing about the lock.
	return nil
}

// holderOf names the process that the lock file names if it has the file open here. In another PID namespace, as in the container of
// another pod, the number is of no process, or of another one.
func holderOf(file *os.File) string {
	const unknown = "another process"
	content, err := io.ReadAll(io.LimitReader(file, 32))
	if err != nil {
		return unknown
	}
	process, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return unknown
	}
	lock, err := file.Stat()
	if err != nil {
		return unknown
	}
	descriptors := filepath.Join("/proc", strconv.Itoa(process), "fd")
	entries, err := os.ReadDir(descriptors)
	if err != nil {
		return unknown
	}
	holds := 0
	for _, entry := range entries {
		if opened, err := os.Stat(filepath.Join(descriptors, entry.Name())); err == nil && os.SameFile(opened, lock) {
			holds++
		}
	}
	if process == os.Getpid() {
		holds-- // the file that is being read
	}
	if holds <= 0 {
		return unknown
	}
	return fmt.Sprintf("process %d", process)
}
