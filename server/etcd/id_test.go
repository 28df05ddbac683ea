// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADataDirectoryKeepsItsID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startEmbedded(t, dir)
	if len(first.StoreID) < 16 || strings.ContainsAny(first.StoreID, "_;/ \n") {
		t.Errorf("the owner is %q, want an id that can be part of a holder's identity", first.StoreID)
	}
	info, err := os.Stat(filepath.Join(dir, "id"))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("the id has mode %#o, want 0600", got)
	}
	first.Stop()
	second := startEmbedded(t, dir)
	if second.StoreID != first.StoreID {
		t.Errorf("the owner after a restart is %q, before it was %q", second.StoreID, first.StoreID)
	}
	second.Stop()

	if other := startEmbedded(t, t.TempDir()); other.StoreID == first.StoreID {
		t.Errorf("another directory has the same owner %q", other.StoreID)
	}
}

func TestADamagedIDIsRefused(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"empty": "", "half": "0f8fad5bd9cb469f", "underscores": "0f8fad5b_d9cb_469f_a165_708677289\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "id")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := directoryID(filepath.Dir(path))
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "delete the file") {
				t.Errorf("got %v, want an error that names the file and what to do", err)
			}
		})
	}
}
