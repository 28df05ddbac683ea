// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEtcdExposure lists all that the process listens on: both servers, on this machine alone, and etcd in a directory of its own.
func TestEtcdExposure(t *testing.T) {
	t.Parallel()
	for _, a := range []*annex{plain, careless} {
		got, err := listeners(a.pid())
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"tcp " + a.host, "tcp " + a.extension, "unix " + filepath.Join(a.dataDir, "etcd", "client.sock")}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("listening sockets (-want,+got):\n%s", diff)
		}
		for _, address := range []string{a.host, a.extension} {
			if !strings.HasPrefix(address, "127.0.0.1:") {
				t.Errorf("%s can be reached from elsewhere", address)
			}
		}
		for _, dir := range []string{a.dataDir, filepath.Join(a.dataDir, "etcd")} {
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v, want 700", dir, info.Mode().Perm(), err)
			}
		}
	}
}

// TestFileModes looks at all that was made under a umask of 000. No other test runs beside it, since those make certificates there.
func TestFileModes(t *testing.T) {
	kinds := map[string]int{}
	err := filepath.WalkDir(careless.dataDir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // The server has deleted it meanwhile.
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		mode := info.Mode().Perm()
		switch ext := filepath.Ext(path); {
		case entry.IsDir():
			kinds["directory"]++
			if mode != 0o700 {
				t.Errorf("%s has mode %o, want 700", path, mode)
			}
		case info.Mode().Type() == fs.ModeSocket: // the directory keeps others out, see TestEtcdExposure
			kinds["socket"]++
		case ext == ".crt": // what everybody may know
			if mode&0o022 != 0 {
				t.Errorf("%s has mode %o: others may write it", path, mode)
			}
		default:
			kinds[ext]++
			kinds[filepath.Base(path)]++
			if mode != 0o600 {
				t.Errorf("%s has mode %o, want 600", path, mode)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"directory", "socket", ".key", ".wal", "db", "kubeconfig", "annex.log", "audit.log", "lock"} {
		if kinds[kind] == 0 {
			t.Errorf("there is no %s among %v, so this tests nothing", kind, kinds)
		}
	}
}
