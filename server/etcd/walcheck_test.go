// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/proto"
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
	good, err := readWAL(logs[0], version.Version)
	if err != nil || good.index < 200 || good.committedAfter {
		t.Fatalf("the log as it is: %+v, %v", good, err)
	}
	end, checksum := int(good.offset), checksumOf(t, logs[0])
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
		"an entry that is none": {func(content []byte) []byte {
			copy(content[end:], recordOf(t, wal.EntryType, checksum, "\xff"))
			return content
		}, "read the log of writes"},
		"other bytes in the middle": {func(content []byte) []byte { copy(content[end/2:], "valuevoluevalue"); return content }, "read the log of writes"},
	} {
		if err := os.WriteFile(logs[0], tc.damage(append([]byte(nil), intact...)), 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkWAL(dataOf(dir), version.Version)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

// recordOf returns a record of a log with a checksum that continues the one before.
func recordOf(t *testing.T, kind int64, previous uint32, data string) []byte {
	t.Helper()
	record := &walpb.Record{Type: &kind, Crc: proto.Uint32(crc32.Update(previous, castagnoli, []byte(data))), Data: []byte(data)}
	content, err := proto.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	padding := (8 - len(content)%8) % 8
	length := uint64(len(content))
	if padding > 0 {
		length |= uint64(0x80|padding) << 56
	}
	return append(append(binary.LittleEndian.AppendUint64(nil, length), content...), make([]byte, padding)...)
}

// checksumOf returns the checksum at the end of a log.
func checksumOf(t *testing.T, path string) uint32 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	decoder := wal.NewDecoder(fileutil.NewFileReader(file))
	record := &walpb.Record{}
	for err = decoder.Decode(record); err == nil; err = decoder.Decode(record) {
		if record.GetType() == wal.CrcType {
			decoder.UpdateCRC(record.GetCrc())
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return decoder.LastCRC()
}

func TestForgedStatesAreNotCommitted(t *testing.T) {
	t.Parallel()
	state := func(commit byte) string { return string([]byte{0x18, commit}) }
	for name, tc := range map[string]struct {
		data string
		want uint64
	}{
		"a state":           {state(7), 7},
		"one that is none":  {"\xff", 0},
		"one that is empty": {"", 0},
	} {
		first := recordOf(t, wal.EntryType, 0, "entry")
		rest := append(first, recordOf(t, wal.StateType, crc32.Update(0, castagnoli, []byte("entry")), tc.data)...)
		if got := highestCommit(append(rest, 0)); got != tc.want {
			t.Errorf("%s: committed is %d, want %d", name, got, tc.want)
		}
	}
}
