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
	"google.golang.org/protobuf/proto"
)

// checkLog refuses a log of which acknowledged writes are missing. etcd reads up to a damaged place, takes what follows for a write that a
// power failure tore, and cuts it off for good; where the log just ends too early, it leaves new writes out until it has caught up. It
// changes nothing, and lets pass what was really torn: nobody was told that it was written.
func checkLog(dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		return err
	}
	path := slices.Max(logs)
	end, err := readLog(path)
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

// logEnd is where what can be read of a log ends.
type logEnd struct {
	offset int64
	// index is that of the last write.
	index uint64
	// committedAfter tells that there are later writes, which cannot be reached, and that they were committed.
	committedAfter bool
}

// readLog reads the last file of a log as etcd does.
func readLog(path string) (end logEnd, err error) {
	file, err := os.Open(path)
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// The name has the number of the file and the index of the first write in it.
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
			end.index = wal.MustUnmarshalEntry(record.GetData()).GetIndex()
		}
	}
	end.offset = decoder.LastOffset()
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return end, fmt.Errorf("read the log of writes %s at byte %d: %w", path, end.offset, err)
	}
	rest, err := written(file, end.offset)
	if err != nil {
		return end, fmt.Errorf("read the log of writes: %w", err)
	}
	end.committedAfter = committed(rest) > end.index
	return end, nil
}

// written returns what is in a file behind a place. Most of a log is reserved and not written yet; where the file system can tell, that
// is not even read.
func written(file *os.File, from int64) (content []byte, err error) {
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

// committed is the highest index that records behind a damaged place say is committed. A record is known by its checksum, which
// continues that of the one before.
func committed(rest []byte) (index uint64) {
	const aligned = 8
	for at := 0; at+aligned <= len(rest); at += aligned {
		previous, next := recordAt(rest, at)
		for previous != nil {
			record, after := recordAt(rest, next)
			if record == nil || crc32.Update(previous.GetCrc(), castagnoli, record.GetData()) != record.GetCrc() {
				break
			}
			if record.GetType() == wal.StateType {
				index = max(index, wal.MustUnmarshalState(record.GetData()).GetCommit())
			}
			at = next
			previous, next = record, after
		}
	}
	return index
}

// recordAt returns what may be a record, and where the next one is.
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

// appliedIndex is that of the last write that the store has; its file is not there at first.
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

// readable makes an error of etcd's start one that says what to do, unless it is about the machine rather than the data.
func readable(err error) error {
	var path *fs.PathError
	var network *net.OpError
	if err == nil || errors.As(err, &path) || errors.As(err, &network) {
		return err
	}
	return unreadable(err.Error())
}
