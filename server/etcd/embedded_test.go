// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc/metadata"
)

func TestRestartKeepsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 3 {
		began := time.Now()
		b := startEmbedded(t, dir)
		t.Logf("start %d took %s", i, time.Since(began))
		for old := range i {
			if got, want := value(t, b, fmt.Sprint("/key", old)), fmt.Sprint(old); got != want {
				t.Errorf("start %d: key %d is %q, want %q", i, old, got, want)
			}
		}
		if err := put(t.Context(), b, fmt.Sprint("/key", i), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		b.Stop()
	}
}

// Not parallel: it compares what the whole process listens on.
func TestOnlyOneSocketListens(t *testing.T) {
	before := listeners(t)
	dir := shortTempDir(t)
	b := startEmbedded(t, dir)
	if err := b.HealthCheck().Check(nil); err != nil {
		t.Fatal(err)
	}
	added := maps.Clone(listeners(t))
	maps.DeleteFunc(added, func(address string, _ bool) bool { return before[address] })
	want := map[string]bool{"unix " + filepath.Join(dir, "etcd", "client.sock"): true}
	if diff := cmp.Diff(want, added); diff != "" {
		t.Errorf("listening sockets beside those from before (-want,+got):\n%s", diff)
	}
	for _, path := range []string{dir, filepath.Join(dir, "etcd")} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o700 {
			t.Errorf("%s has mode %#o, want 0700", path, got)
		}
	}
	b.Stop()
	if diff := cmp.Diff(before, listeners(t)); diff != "" {
		t.Errorf("listening sockets after stop (-want,+got):\n%s", diff)
	}
}

// listeners returns the addresses this process listens on: TCP, and unix with those in the abstract namespace ("@…").
func listeners(t *testing.T) map[string]bool {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, fd := range fds {
		// Files come and go meanwhile; one that went does not listen.
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	found := map[string]bool{}
	for _, network := range []string{"tcp", "tcp6", "unix"} {
		content, err := os.ReadFile("/proc/self/net/" + network)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(content), "\n")[1:] {
			fields := strings.Fields(line)
			switch {
			case network == "unix" && len(fields) >= 7 && fields[3] == "00010000" && own[fields[6]]:
				found["unix "+strings.Join(fields[7:], " ")] = true
			case network != "unix" && len(fields) >= 10 && fields[3] == "0A" && own[fields[9]]:
				found[network+" "+fields[1]] = true
			}
		}
	}
	return found
}

func TestListenersSeesAbstractSockets(t *testing.T) {
	name := fmt.Sprintf("@annex-test-%d", os.Getpid())
	listener := listen(t, "unix", name)
	if !listeners(t)["unix "+name] {
		t.Error("an abstract socket was not found, so the test of the sockets tests nothing")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLongDataDirHasShortSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	short, err := shortDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	// As a killed process would leave it.
	if err := os.WriteFile(filepath.Join(short, "client.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := startEmbedded(t, dir)
	if got, want := b.Transport.ServerList[0], "unix://"+filepath.Join(short, "client.sock"); got != want {
		t.Errorf("etcd is at %s, want %s", got, want)
	}
	if _, err := b.Client.Status(t.Context(), b.Transport.ServerList[0]); err != nil {
		t.Errorf("asking the socket: %v", err)
	}
	info, err := os.Stat(short)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("the socket's directory has mode %#o, want 0700", got)
	}
	b.Stop()
	if _, err := os.Stat(short); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's directory is still there: %v", err)
	}
}

func TestShortDirOfSomebodyElseIsNotUsed(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	taken, err := shortDir(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(taken); err != nil {
			t.Error(err)
		}
	})
	// Open to others, as one that somebody prepared would have to be.
	if err := os.Chmod(taken, 0o755); err != nil {
		t.Fatal(err)
	}
	other, err := shortDir(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(other); err != nil {
			t.Error(err)
		}
	})
	if other == taken {
		t.Errorf("%s is used although others can enter it", taken)
	}
}

func TestDataDirMayHaveAnyName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortTempDir(t), "a b%41#c?d")
	b := startEmbedded(t, dir)
	if _, err := b.Client.Status(t.Context(), b.Transport.ServerList[0]); err != nil {
		t.Errorf("asking the socket: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd", "client.sock")); err != nil {
		t.Error(err)
	}
}

func TestRelativeDataDirIsMadeAbsolute(t *testing.T) {
	t.Parallel()
	if got := complete(t, "some/where").dataDir; !filepath.IsAbs(got) {
		t.Errorf("the data directory is %s, want an absolute path", got)
	}
}

func TestFailedTellsOfALostDataDir(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	b := startEmbedded(t, dir)
	select {
	case err := <-b.Failed():
		t.Fatalf("failed at once: %v", err)
	default:
	}
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-b.Failed():
		wantError(t, err, dir, "was removed or replaced while it was in use")
	case <-time.After(5 * lockInterval):
		t.Fatal("the loss of the data directory was not noticed")
	}
}

func TestFailedTellsOfADeadEtcd(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	b.quotaAlarm.server.HardStop()
	select {
	case err := <-b.Failed():
		wantError(t, err, "etcd ended")
	case <-time.After(10 * time.Second):
		t.Fatal("the end of etcd was not noticed")
	}
}

func TestCleanStartAndStopAreSilent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, start := range []string{"first", "second"} {
		stdout, stderr, err := startChild(t, dir)
		if err != nil || stdout+stderr != "PASS\n" {
			t.Errorf("%s start: %v; it logged:\n%s%s", start, err, stdout, stderr)
		}
	}
}

// The start is made by another process, since goroutines of an etcd that fails to start stay behind.
func TestUnreadableDataIsOneClearError(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"store": "etcd/data/member/snap/db",
		"log":   "etcd/data/member/wal",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := startEmbedded(t, dir)
			if err := put(t.Context(), b, "/key", "value"); err != nil {
				t.Fatal(err)
			}
			b.Stop()
			overwriteFiles(t, filepath.Join(dir, path))

			stdout, stderr, err := startChild(t, dir)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("the start ended with %v, want exit code 1; it said:\n%s%s", err, stdout, stderr)
			}
			_, said, _ := strings.Cut(stdout, "<")
			said, _, _ = strings.Cut(said, ">")
			if !strings.HasPrefix(said, "start etcd in "+dir+": ") || strings.Contains(said, "\n") || strings.Contains(stdout+stderr, "goroutine ") {
				t.Errorf("the start said, want one line on the directory:\n%s%s", stdout, stderr)
			}
		})
	}
}

// overwriteFiles makes garbage of a file or of all files in a directory.
func overwriteFiles(t *testing.T, path string) {
	t.Helper()
	err := filepath.WalkDir(path, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.WriteFile(path, []byte(strings.Repeat("garbage ", 8192)), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := complete(t, dir).Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	startEmbedded(t, dir)
}

func TestIdleWatchesLearnOfProgress(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	watch := b.Client.Watch(ctx, "/quiet/", clientv3.WithPrefix(), clientv3.WithProgressNotify())
	put, err := b.Client.Put(ctx, "/busy/a", "1")
	if err != nil {
		t.Fatal(err)
	}
	for response := range watch {
		if response.IsProgressNotify() && response.Header.Revision >= put.Header.Revision {
			return
		}
	}
	t.Errorf("no notification of revision %d within 20 s; bookmarks of quiet resources come from these", put.Header.Revision)
}

func TestSharedClientWatchesAndLeases(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	events := b.Client.Watch(metadata.AppendToOutgoingContext(t.Context(), "resource", "things"), "/key")
	lease, err := b.Client.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	response, err := b.Client.Kubernetes.OptimisticPut(t.Context(), "/key", []byte("value"), 0, kubernetes.PutOptions{LeaseID: lease.ID})
	if err != nil || !response.Succeeded {
		t.Fatalf("writing: %v, %v", response, err)
	}
	got := <-events
	if len(got.Events) != 1 || string(got.Events[0].Kv.Value) != "value" || got.Events[0].Kv.ModRevision != response.Revision {
		t.Errorf("the watch tells of %v, want one event at revision %d", got.Events, response.Revision)
	}
	// A streamed list goes through the socket.
	stream, err := b.Client.GetStream(t.Context(), "/key")
	if err != nil {
		t.Fatal(err)
	}
	var streamed []string
	for chunk := range stream {
		if chunk.Err() != nil {
			t.Fatal(chunk.Err())
		}
		for _, kv := range chunk.Kvs {
			streamed = append(streamed, string(kv.Value))
		}
	}
	if diff := cmp.Diff([]string{"value"}, streamed); diff != "" {
		t.Errorf("streamed list (-want,+got):\n%s", diff)
	}
}

// TestStopIsLimitedWithoutTheDirectory has a store that does not close, as on a file system that does not answer.
func TestStopIsLimitedWithoutTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startEmbedded(t, dir)
	server := b.quotaAlarm.server
	reader := server.Backend().ConcurrentReadTx()
	reader.RLock()
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-b.Failed():
		wantError(t, err, dir, "was removed or replaced while it was in use")
	case <-time.After(30 * time.Second):
		t.Error("the removal of the lock was not noticed")
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.Stop()
	}()
	select {
	case <-stopped:
	case <-time.After(closeTimeout + 30*time.Second):
		t.Error("stopping waits for the store to be closed")
	}
	reader.RUnlock()
	// The files are in use until then.
	<-server.StopNotify()
	<-stopped
}
