// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kube-annex/annex/test/framework/poll"
)

// childDataDir is given to a child process, which runs TestChild alone.
var childDataDir = flag.String("child-data-dir", "", "data directory that TestChild starts and stops etcd in")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Upstream's reloading transformers wait for a server that these tests do not run.
		goleak.IgnoreTopFunction("context.(*cancelCtx).propagateCancel.func2"),
		// Upstream's timer of a read of the watch cache, which ends after 3 s.
		goleak.IgnoreTopFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshLocked.func2"))
}

// TestChild does nothing unless startChild runs it.
func TestChild(t *testing.T) {
	if *childDataDir == "" {
		return
	}
	b, err := complete(t, *childDataDir).Start(t.Context())
	if err != nil {
		t.Fatalf("<%v>", err)
	}
	b.Stop()
}

func startChild(t *testing.T, dir string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut strings.Builder
	command := exec.CommandContext(ctx, self, "-test.run=^TestChild$", "-child-data-dir="+dir)
	command.Stdout, command.Stderr = &out, &errOut
	err = command.Run()
	return out.String(), errOut.String(), err
}

// startEmbedded starts an etcd in dir and stops it with the test.
func startEmbedded(t *testing.T, dir string, change ...func(*Options)) *Backend {
	t.Helper()
	b, err := complete(t, dir, change...).Start(t.Context())
	if err != nil {
		t.Fatalf("starting etcd: %v", err)
	}
	t.Cleanup(b.Stop)
	return b
}

func complete(t *testing.T, dir string, change ...func(*Options)) CompletedOptions {
	t.Helper()
	options := NewOptions()
	for _, c := range change {
		c(options)
	}
	completed, err := options.Complete(dir)
	if err != nil {
		t.Fatalf("completing the options: %v", err)
	}
	return completed
}

// shortTempDir is for tests whose socket must fit into the data directory: t.TempDir repeats the test's name.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e") //nolint:usetesting // its paths are too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// eventually waits until done returns no complaint.
func eventually(t *testing.T, done func() string) {
	t.Helper()
	if err := poll.Until(t.Context(), time.Minute, func(context.Context) error {
		complaint := done()
		return poll.Want(complaint == "", complaint)
	}); err != nil {
		t.Fatal(err)
	}
}

func put(ctx context.Context, b *Backend, key, value string) error {
	_, err := b.Client.Put(ctx, key, value)
	return err
}

// value returns what etcd has at the key.
func value(t *testing.T, b *Backend, key string) string {
	t.Helper()
	response, err := b.Client.KV.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("reading %s: %v", key, err)
	}
	if len(response.Kvs) == 0 {
		return ""
	}
	return string(response.Kvs[0].Value)
}

// wantError checks that the error says each of the parts.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
	if text := fmt.Sprint(err); strings.Contains(text, "goroutine ") {
		t.Errorf("the error has a stack trace:\n%s", text)
	}
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
