// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

var writeWAL = flag.Bool("annex.write-wal", false, "write testdata/VERSION.wal for the version of etcd in go.mod")

// firstEntry is the content of the first entry of the logs in testdata.
const firstEntry = "the first entry"

// newWAL returns the path of a log that etcd wrote, with committed entries of all paddings.
func newWAL(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "member", "wal")
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := wal.Create(zap.NewNop(), dir, []byte("metadata"))
	if err != nil {
		t.Fatal(err)
	}
	for index := range uint64(9) {
		entry := &raftpb.Entry{Term: proto.Uint64(2), Index: proto.Uint64(index + 1), Data: []byte(firstEntry + strings.Repeat("x", int(index)))}
		state := &raftpb.HardState{Term: proto.Uint64(2), Vote: proto.Uint64(1), Commit: entry.Index}
		if err := log.Save(state, []*raftpb.Entry{entry}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("the logs are %v, %v; want one", logs, err)
	}
	return logs[0]
}

type walRecord struct {
	Type int64
	CRC  uint32
	Data string
}

func TestRecordsAreReadAsEtcdWritesThem(t *testing.T) {
	t.Parallel()
	path := newWAL(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content = append(bytes.TrimRight(content, "\x00"), make([]byte, 8)...)
	golden := func(version string) string { return filepath.Join("testdata", version+".wal") }
	if *writeWAL {
		if err := os.WriteFile(golden(version.Version), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, known := range append(walVersions, version.Version) {
		want, err := os.ReadFile(golden(known))
		if err != nil {
			t.Fatalf("the log of etcd %s is not known: %v; run this test with -annex.write-wal, and add the version to walVersions if it passes", known, err)
		}
		if diff := cmp.Diff(etcdRecords(t, golden(known)), ownRecords(want)); diff != "" {
			t.Errorf("records of etcd %s (-read by etcd, +read by recordAt):\n%s", known, diff)
		}
		if known == version.Version && !bytes.Equal(want, content) {
			t.Errorf("etcd %s does not write %s: got %q", known, golden(known), content)
		}
	}
}

func ownRecords(content []byte) (records []walRecord) {
	for record, at := recordAt(content, 0); record != nil; record, at = recordAt(content, at) {
		records = append(records, walRecord{record.GetType(), record.GetCrc(), string(record.GetData())})
	}
	return records
}

func etcdRecords(t *testing.T, path string) (records []walRecord) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	decoder, record := wal.NewDecoder(fileutil.NewFileReader(file)), &walpb.Record{}
	for err = decoder.Decode(record); err == nil; err = decoder.Decode(record) {
		if record.GetType() == wal.CrcType {
			decoder.UpdateCRC(record.GetCrc())
		}
		records = append(records, walRecord{record.GetType(), record.GetCrc(), string(record.GetData())})
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return records
}

// TestEtcdTakesEveryDamageForTheEnd is why walcheck.go exists. A WAL of a version that is not known is left to etcd.
func TestEtcdTakesEveryDamageForTheEnd(t *testing.T) {
	t.Parallel()
	path := newWAL(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const alignment = 8
	damaged := bytes.Index(content, []byte(firstEntry)) / alignment * alignment
	clear(content[damaged-2*alignment:][:len(firstEntry)+3*alignment])
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	state, err := wal.Verify(zap.NewNop(), filepath.Dir(path), &walpb.Snapshot{Index: new(uint64), Term: new(uint64)})
	if err != nil || state.GetCommit() != 0 {
		t.Errorf("wal.Verify returns %v and %v; want no error and no committed entry, or use it in place of checkWAL", state, err)
	}
	dir := filepath.Dir(filepath.Dir(filepath.Dir(path)))
	if err := checkWAL(dir, version.Version); err == nil {
		t.Error("checkWAL accepts a log without a committed entry")
	}
	if err := checkWAL(dir, "0.0.0"); err != nil {
		t.Errorf("an unknown version of etcd: %v, want no error", err)
	}
}
