// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDamagedLogsAreNotCutOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startEmbedded(t, dir)
	for i := range 200 {
		if err := put(t.Context(), b, fmt.Sprint("/key/", i), strings.Repeat("value", 100)); err != nil {
			t.Fatal(err)
		}
	}
	b.Stop()
	logs, err := filepath.Glob(filepath.Join(dataOf(dir), "member", "wal", "*.wal"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("want one log: %v, %v", logs, err)
	}
	intact, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	good, err := readLog(logs[0])
	if err != nil || good.index < 200 || good.committedAfter {
		t.Fatalf("the log as it is: %+v, %v", good, err)
	}
	end := int(good.offset)
	for name, tc := range map[string]struct {
		damage func(content []byte) []byte
		want   string
	}{
		"nothing":                   {func(content []byte) []byte { return content }, ""},
		"the end is cut off":        {func(content []byte) []byte { return content[:end] }, ""},
		"a length and nothing more": {func(content []byte) []byte { content[end+1] = 7; return content }, ""},
		"garbage at the end":        {func(content []byte) []byte { copy(content[end:], strings.Repeat("garbage ", 600)); return content }, ""},
		"zeros in the middle":       {func(content []byte) []byte { clear(content[end/2/512*512:][:1024]); return content }, "and writes after that were acknowledged"},
		"zeros from the middle on":  {func(content []byte) []byte { clear(content[end/2:]); return content }, "and writes after that were acknowledged"},
		"it ends in the middle":     {func(content []byte) []byte { return content[:end/2] }, "and writes after that were acknowledged"},
		"other bytes in the middle": {func(content []byte) []byte { copy(content[end/2:], "valuevoluevalue"); return content }, "read the log of writes"},
	} {
		if err := os.WriteFile(logs[0], tc.damage(append([]byte(nil), intact...)), 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkLog(dataOf(dir))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}
