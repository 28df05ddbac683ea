// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// walVersions lists the versions of etcd whose records recordAt reads. TestRecordsAreReadAsEtcdWritesThem fails if the one in go.mod is
// missing.
var walVersions = []string{"3.7.0"}

// checkWAL returns an error if acknowledged writes are missing from the WAL. etcd reads up to a damaged record, takes the rest for a torn
// write, and truncates it; if the WAL ends too early, etcd ignores new writes until their index is higher. checkWAL is read-only, and accepts
// a write that is really torn: it was not acknowledged. Versions of etcd that are not in walVersions may write another format: then checkWAL
// does not look for records after the damage, since it could refuse an intact WAL, and only compares the index of the database.
func checkWAL(dir, etcdVersion string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		return err
	}
	path := slices.Max(logs)
	end, err := readWAL(path, etcdVersion)
	if err != nil {
		return err
	}
	applied, err := appliedIndex(filepath.Join(dir, "member", "snap", "db"))
	if err != nil {
		return err
	}
	if end.committedAfter || applied > end.index {
		return fmt.Errorf("the log of writes %s is damaged at byte %d, and writes after that were acknowledged", path, end.offset)
	}
	return nil
}

// walEnd is the end of the readable part of a WAL file.
type walEnd struct {
	offset int64
	// index is the index of the last entry.
	index uint64
	// committedAfter reports whether later entries, which cannot be read, are committed.
	committedAfter bool
}

// readWAL reads the last file of a WAL as etcd does.
func readWAL(path, etcdVersion string) (end walEnd, err error) {
	file, err := os.Open(path)
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// The name has the number of the file and the index of its first entry.
	if _, err = fmt.Sscanf(filepath.Base(path), "%x-%x.wal", new(uint64), &end.index); err != nil {
		return end, fmt.Errorf("%s is not the name of a log: %w", path, err)
	}
	end.index = max(end.index, 1) - 1
	decoder := wal.NewDecoder(fileutil.NewFileReader(file))
	record := &walpb.Record{}
	for err = decoder.Decode(record); err == nil; err = decoder.Decode(record) {
		switch record.GetType() {
		case wal.CrcType:
			decoder.UpdateCRC(record.GetCrc())
		case wal.EntryType:
			entry := &raftpb.Entry{}
			if err = proto.Unmarshal(record.GetData(), entry); err != nil {
				return end, fmt.Errorf("read the log of writes %s before byte %d: %w", path, decoder.LastOffset(), err)
			}
			end.index = entry.GetIndex()
		}
	}
	end.offset = decoder.LastOffset()
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return end, fmt.Errorf("read the log of writes %s at byte %d: %w", path, end.offset, err)
	}
	if !slices.Contains(walVersions, etcdVersion) {
		return end, nil
	}
	rest, err := readWritten(file, end.offset)
	if err != nil {
		return end, fmt.Errorf("read the log of writes: %w", err)
	}
	end.committedAfter = highestCommit(rest) > end.index
	return end, nil
}

// readWritten returns the content of a file after an offset. Most of a WAL file is preallocated; holes are skipped if the file system reports
// them.
func readWritten(file *os.File, from int64) (content []byte, err error) {
	const seekData = 3
	const chunk = 1 << 20
	read := 0
	for at := from; ; at += int64(read) {
		found, err := file.Seek(at, seekData)
		if errors.Is(err, syscall.ENXIO) {
			return content, nil
		}
		if err != nil {
			found = at
		}
		part := make([]byte, chunk)
		read, err = file.ReadAt(part, found)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if part = bytes.TrimRight(part[:read], "\x00"); len(part) > 0 {
			// Holes are zeros.
			content = append(content, make([]byte, int(found-from)-len(content))...)
			content = append(content, part...)
		}
		if read < chunk {
			return content, nil
		}
		at = found
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// highestCommit returns the highest commit index in the records after a damaged one. A record is recognized by its checksum, which continues
// that of the previous record.
func highestCommit(rest []byte) (index uint64) {
	const aligned = 8
	for at := 0; at+aligned <= len(rest); at += aligned {
		previous, next := recordAt(rest, at)
		for previous != nil {
			record, after := recordAt(rest, next)
			if record == nil || crc32.Update(previous.GetCrc(), castagnoli, record.GetData()) != record.GetCrc() {
				break
			}
			if state := (&raftpb.HardState{}); record.GetType() == wal.StateType && proto.Unmarshal(record.GetData(), state) == nil {
				index = max(index, state.GetCommit())
			}
			at = next
			previous, next = record, after
		}
	}
	return index
}

// recordAt returns a possible record and the offset of the next one.
func recordAt(content []byte, at int) (record *walpb.Record, next int) {
	const prefix = 8
	if at+prefix >= len(content) {
		return nil, 0
	}
	length := binary.LittleEndian.Uint64(content[at:])
	padding := uint64(0)
	if length>>63 == 1 {
		padding = length >> 56 & 7
	}
	length &= 1<<56 - 1
	if left := uint64(len(content) - at - prefix); length == 0 || length > left {
		return nil, 0
	}
	record = &walpb.Record{}
	start := at + prefix
	if proto.Unmarshal(content[start:start+int(length)], record) != nil {
		return nil, 0
	}
	if kind := record.GetType(); kind < wal.MetadataType || kind > wal.SnapshotType {
		return nil, 0
	}
	return record, start + int(length+padding)
}

// appliedIndex returns the index of the last entry in the database, or 0 if there is no database.
func appliedIndex(path string) (index uint64, err error) {
	if _, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	store, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	err = store.View(func(tx *bbolt.Tx) error {
		if meta := tx.Bucket(schema.Meta.Name()); meta != nil {
			if content := meta.Get(schema.MetaConsistentIndexKeyName); len(content) == 8 {
				index = binary.BigEndian.Uint64(content)
			}
		}
		return nil
	})
	return index, err
}

// dataError adds the remedy to an error of etcd's start, unless it is an error of a file or the network.
func dataError(err error) error {
	var path *fs.PathError
	var network *net.OpError
	if err == nil || errors.As(err, &path) || errors.As(err, &network) {
		return err
	}
	return unreadable(err.Error())
}
