// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestLockNamesItsHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := LockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = LockDataDir(dir)
	wantError(t, err, fmt.Sprintf("data directory %s is in use by process %d; stop it or choose another --data-dir", dir, os.Getpid()))

	_, err = complete(t, dir, func(o *Options) { o.LockTimeout = time.Millisecond }).Start(t.Context())
	wantError(t, err, "after 1ms", "is in use by process")

	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if lock, err = LockDataDir(dir); err != nil {
		t.Fatalf("the lock was given back: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// TestLockNamesNoProcessOfAnotherPIDNamespace has the lock name process 1, as the process of a container does.
func TestLockNamesNoProcessOfAnotherPIDNamespace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := LockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"1\n", "", "4194305\n", "x\n"} {
		if err := os.WriteFile(filepath.Join(dir, "lock"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = LockDataDir(dir)
		wantError(t, err, "is in use by another process; stop it")
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// TestStartWaitsForTheProcessBefore replaces a process that has not ended yet, as a pod on the same volume is replaced.
func TestStartWaitsForTheProcessBefore(t *testing.T) {
	t.Parallel()
	dir := shortTempDir(t)
	before, err := LockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	logged := logger.GetSink().(ktesting.Underlier).GetBuffer()
	started := make(chan error, 1)
	go func() {
		backend, err := complete(t, dir).Start(klog.NewContext(t.Context(), logger))
		if err == nil {
			backend.Stop()
		}
		started <- err
	}()
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		select {
		case err := <-started:
			return false, fmt.Errorf("it did not wait: %w", err)
		default:
			return strings.Contains(logged.String(), "Waiting for the data directory"), nil
		}
	})
	if err != nil {
		t.Errorf("the process before has the lock: %v\n%s", err, logged.String())
	}
	if err := before.Unlock(); err != nil {
		t.Fatal(err)
	}
	if t.Failed() {
		return
	}
	if err := <-started; err != nil {
		t.Errorf("the process before has ended: %v", err)
	}
}

func TestLockOfTheCallerIsUsedAndLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := LockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := startEmbedded(t, dir, func(o *Options) { o.Lock = lock })
	b.Stop()
	_, err = LockDataDir(dir)
	wantError(t, err, "is in use by process")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestLockIsFreedByStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startEmbedded(t, dir)
	_, err := LockDataDir(dir)
	wantError(t, err, "is in use by process")
	b.Stop()
	b.Stop()
	lock, err := LockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestDataDirIsClosedToOthers(t *testing.T) {
	t.Parallel()
	type tc struct {
		mode    fs.FileMode // 0: missing
		content string
		wantErr string
	}
	for name, tc := range map[string]tc{
		"missing":                         {},
		"empty and open":                  {mode: 0o755},
		"ours and open":                   {mode: 0o755, content: "version"},
		"ours and closed":                 {mode: 0o700, content: "version"},
		"somebody's and closed":           {mode: 0o700, content: "letter"},
		"somebody's and open":             {mode: 0o755, content: "letter", wantErr: "run `chmod 700"},
		"somebody's and open to a group":  {mode: 0o750, content: "letter", wantErr: "choose another --data-dir"},
		"somebody's and open to everyone": {mode: 0o777, content: "letter", wantErr: "mode 0777"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			if tc.mode != 0 {
				if err := errors.Join(os.Mkdir(dir, tc.mode), os.Chmod(dir, tc.mode)); err != nil {
					t.Fatal(err)
				}
			}
			if tc.content != "" {
				if err := os.WriteFile(filepath.Join(dir, tc.content), []byte("1\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			lock, err := LockDataDir(dir)
			want := fs.FileMode(0o700)
			if tc.wantErr != "" {
				wantError(t, err, tc.wantErr, dir)
				want = tc.mode
			} else if err != nil {
				t.Fatal(err)
			}
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("the directory has mode %#o, want %#o", got, want)
			}
		})
	}
}

func TestDataDirThatIsAFileIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := LockDataDir(path)
	wantError(t, err, "create the data directory", "--data-dir")
}

func TestFormatOfDataDir(t *testing.T) {
	t.Parallel()
	type tc struct {
		content string
		wantErr []string
	}
	for name, tc := range map[string]tc{
		"this":    {content: "1\n"},
		"newer":   {content: "2\n", wantErr: []string{"written by a newer version of annex", "format 2", "use the newer version or choose another --data-dir"}},
		"empty":   {content: "", wantErr: []string{"does not hold a format number", "--data-dir"}},
		"garbage": {content: "v1", wantErr: []string{"does not hold a format number"}},
		"zero":    {content: "0", wantErr: []string{"does not hold a format number"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "version"), []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			// Twice, because a refusal must not keep the lock.
			for range 2 {
				lock, err := LockDataDir(dir)
				if tc.wantErr != nil {
					wantError(t, err, tc.wantErr...)
				} else if err != nil {
					t.Fatal(err)
				}
				if err := lock.Unlock(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestFormatIsNotedInANewDataDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := LockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "version"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(content); got != "1\n" {
		t.Errorf("version holds %q, want %q", got, "1\n")
	}
}
