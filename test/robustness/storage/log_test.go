// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-annex/annex/test/robustness/traffic"
)

// tornLog has a power failure, as it were, cut off what was written last and not acknowledged. Then the log is damaged further ahead,
// where it is for people to decide.
func tornLog(t *testing.T, r row, s *server, l *traffic.Load) {
	for range times(1, 10) {
		tears := []struct {
			what string
			make func(content []byte, frames []int) []byte
		}{
			{"the file ends after the last record", func(content []byte, frames []int) []byte { return content[:end(frames)] }},
			{"a record has a length and nothing more", func(content []byte, frames []int) []byte {
				binary.LittleEndian.PutUint64(content[end(frames):], 5000)
				return content
			}},
			{"the file ends in the middle of a record", func(content []byte, frames []int) []byte {
				last := content[frames[len(frames)-2]:end(frames)]
				return append(content[:end(frames):end(frames)], last[:len(last)/2]...)
			}},
			{"the file goes on with garbage", func(content []byte, frames []int) []byte {
				for i := range 3000 {
					content[end(frames)+i] = byte(r.random.Uint32())
				}
				return content
			}},
		}
		r.random.Shuffle(len(tears), func(i, j int) { tears[i], tears[j] = tears[j], tears[i] })
		for _, tear := range tears[:times(2, len(tears))] {
			s.kill()
			path := lastLog(t, s)
			content := readFile(t, path)
			frames := framesOf(content)
			// The rest of the file is reserved, where it was not cut off before.
			content = append(content[:end(frames)], make([]byte, 1<<20)...)
			if err := os.WriteFile(path, tear.make(content, frames), 0o600); err != nil {
				t.Fatal(err)
			}
			s.start(t)
			t.Logf("%s: started; clients recovered after %s", tear.what, l.Recovered(t, recovery))
			l.WaitFor(t, 20)
		}
	}
	for what, damage := range map[string]func([]byte, []int){
		"a record that changed": func(content []byte, frames []int) {
			at := frames[len(frames)/2]
			for i := range 4 {
				content[at+8+i] ^= 0xff
			}
		},
		"a sector of zeros":         func(content []byte, frames []int) { clear(content[frames[len(frames)/2]/512*512:][:512]) },
		"a length that is too long": func(content []byte, frames []int) { content[frames[len(frames)/2]+6] = 0x7f },
	} {
		s.kill()
		path := lastLog(t, s)
		intact := readFile(t, path)
		damaged := bytes.Clone(intact)
		damage(damaged, framesOf(intact))
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		before := sums(t, s)
		s.launch(t)
		wantText(t, what, s.waitEnd(t, startTimeout), "its data cannot be read", "restore the directory from a backup or choose another --data-dir")
		if diff := cmp.Diff(before, sums(t, s)); diff != "" {
			t.Errorf("%s: files were changed (-want,+got):\n%s", what, diff)
		}
		// A backup of the file is as good as it was.
		if err := os.WriteFile(path, intact, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.start(t)
}

// framesOf are where records of a log begin, and last where they end.
func framesOf(content []byte) (frames []int) {
	at := 0
	for {
		frames = append(frames, at)
		if at+8 > len(content) {
			return frames
		}
		length := binary.LittleEndian.Uint64(content[at:])
		if length == 0 {
			return frames
		}
		padding := 0
		if length>>63 == 1 {
			padding = int(length>>56) & 7
		}
		at += 8 + int(length&(1<<56-1)) + padding
	}
}

func end(frames []int) int { return frames[len(frames)-1] }

func lastLog(t *testing.T, s *server) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dataDir(), "etcd", "data", "member", "wal", "*.wal"))
	if err != nil || len(found) == 0 {
		t.Fatalf("there is no log: %v", err)
	}
	return slices.Max(found)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// sums tell whether the store was changed.
func sums(t *testing.T, s *server) map[string][32]byte {
	t.Helper()
	all := map[string][32]byte{}
	dir := filepath.Join(s.dataDir(), "etcd", "data")
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all[path] = sha256.Sum256(readFile(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
