// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kube-annex/annex/test/framework"
)

// troubleVariable names a file that says what is wrong with the disk: "full", or "slow" and for how many milliseconds each sync lasts.
const troubleVariable = "ANNEX_TEST_DISK"

// troubled is added to the packages through which etcd writes. It needs neither rights nor a file system of its own, so that the disk can
// be full or slow wherever there is Go.
const troubled = `package %s

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

func annexTestDisk() (full bool, slow time.Duration) {
	content, err := os.ReadFile(os.Getenv("` + troubleVariable + `"))
	if err != nil {
		return false, 0
	}
	kind, milliseconds := "", 0
	_, _ = fmt.Sscan(string(content), &kind, &milliseconds)
	return kind == "full", time.Duration(milliseconds) * time.Millisecond
}

func annexTestSync() {
	_, slow := annexTestDisk()
	<-time.After(slow)
}

func annexTestSpace() error {
	if full, _ := annexTestDisk(); full {
		return syscall.ENOSPC
	}
	return nil
}
`

// edits are made in modules that etcd is built of, by file: what is written there is put in place of what is found.
var edits = map[string]map[string][][2]string{
	"go.etcd.io/etcd/client/pkg/v3": {
		"fileutil/sync_linux.go": {
			{"	return f.Sync()", "	annexTestSync()\n	return f.Sync()"},
			{"	return syscall.Fdatasync(", "	annexTestSync()\n	return syscall.Fdatasync("},
		},
		"fileutil/preallocate_unix.go": {
			{"	// use mode = 0 to change size\n", "	if err := annexTestSpace(); err != nil {\n		return err\n	}\n"},
		},
	},
	"go.etcd.io/bbolt": {
		"bolt_linux.go": {
			{"	return syscall.Fdatasync(", "	annexTestSync()\n	return syscall.Fdatasync("},
		},
		"db.go": {
			{"	db.ops.writeAt = db.file.WriteAt\n", `	db.ops.writeAt = func(b []byte, off int64) (int, error) {
		if err := annexTestSpace(); err != nil {
			return 0, err
		}
		return db.file.WriteAt(b, off)
	}
`},
		},
	},
}

// making keeps tests from writing the same files at once.
var making sync.Mutex

// annex and member are binaries whose disk can be in trouble.
func annex(t testing.TB) string {
	t.Helper()
	return framework.Build(t, "annex-on-test-disk-", root, "./cmd/annex", "-modfile="+modules(t))
}

func member(t testing.TB) string {
	t.Helper()
	return framework.Build(t, "etcd-on-test-disk-", root, "go.etcd.io/etcd/server/v3", "-modfile="+modules(t))
}

// modules writes the changed modules to the cache, and returns a go.mod that has them in place of the others. It is in the same place each
// time, so that what is built of it is cached.
func modules(t testing.TB) string {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	all := map[string][]byte{}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = content
	}
	for module := range edits {
		for name, content := range changed(t, module) {
			all[path.Join(module, name)] = content
		}
	}
	described, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "annex", fmt.Sprintf("disk-%x", sha256.Sum256(described))[:21])
	for _, module := range slices.Sorted(maps.Keys(edits)) {
		all["go.mod"] = fmt.Appendf(all["go.mod"], "\nreplace %s => %s\n", module, filepath.Join(dir, module))
	}
	for name, content := range all {
		writeFile(t, filepath.Join(dir, name), content)
	}
	return filepath.Join(dir, "go.mod")
}

// changed returns the files of a module with the edits made.
func changed(t testing.TB, module string) map[string][]byte {
	t.Helper()
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		t.Fatalf("finding %s: %v", module, err)
	}
	dir := os.DirFS(strings.TrimSpace(string(output)))
	files := map[string][]byte{}
	err = fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.go") || path.Ext(name) != ".go" && path.Base(name) != "go.mod" {
			return err
		}
		files[name], err = fs.ReadFile(dir, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, replacements := range edits[module] {
		text := string(files[name])
		for _, replacement := range replacements {
			if strings.Count(text, replacement[0]) != 1 {
				t.Fatalf("%s of %s does not have %q once: see how this version of it writes, and change the edits in disk_test.go", name, module, replacement[0])
			}
			text = strings.Replace(text, replacement[0], replacement[1], 1)
		}
		files[name] = []byte(text)
		pkg := path.Base(path.Dir(path.Join(path.Base(module), name)))
		files[path.Join(path.Dir(name), "annex_test_disk.go")] = fmt.Appendf(nil, troubled, pkg)
	}
	return files
}

// writeFile leaves a file alone that has the content, and others never see half of it.
func writeFile(t testing.TB, path string, content []byte) {
	t.Helper()
	if found, err := os.ReadFile(path); err == nil && string(found) == string(content) {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	temporary := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatal(err)
	}
}

// disk is that of one process.
type disk struct{ file string }

// trouble begins, in place of what was wrong before; an empty one ends it, and so does the end of the test.
func (d disk) trouble(t testing.TB, what string) {
	t.Helper()
	if err := os.WriteFile(d.file, []byte(what), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(d.file) })
}
