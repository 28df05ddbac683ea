// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

// quick are timings with which a Lease that was lost is had again soon.
var quick = []string{"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms"}

// leases are those of all groups of `annex up`.
var leases = map[string]string{"annex-controlplane": "kube-system", "annex-observer": "annex-system", "annex-clusterclaims": "annex-system"}

func TestALostLeaseEndsTheProcessWithoutTheGate(t *testing.T) {
	t.Parallel()
	for name, namespace := range leases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p, client := startUp(t, dir, append(quick, "--feature-gates=GracefulLeaderTransition=false")...)
			holderOf(t, p, client, namespace, name)
			give(t, client, namespace, name, "somebody-else")
			if code := p.wait(t); code != 1 {
				t.Errorf("annex ended with code %d, want 1", code)
			}
			if text := p.stdout.String(); !strings.Contains(text, "ending at once, and the embedded etcd with it") {
				t.Errorf("annex did not say that its etcd ends:\n%s", text)
			}
			checkOneClearLine(t, p.stderr.String(), "somebody-else")
			// etcd takes its socket away when it is closed, and leaves it when it is killed.
			if _, err := os.Stat(filepath.Join(dir, "etcd", "client.sock")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("etcd's socket is still there (%v): etcd was not closed in order", err)
			}
		})
	}
}

func TestALostLeaseLeavesAFollowerThatLeadsAgain(t *testing.T) {
	t.Parallel()
	p, client := startUp(t, t.TempDir(), quick...)
	before := map[string]string{}
	for name, namespace := range leases {
		before[name] = holderOf(t, p, client, namespace, name)
		give(t, client, namespace, name, "somebody-else")
	}
	for _, group := range []string{"controlplane", "observer", "clusterclaims"} {
		waitForRole(t, p, client, group+": follower", "somebody-else")
	}
	body, err := client.CoordinationV1().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
	if err != nil {
		t.Errorf("/readyz of a follower is %s (%v), want ok", body, err)
	}
	for _, group := range []string{"controlplane", "observer", "clusterclaims"} {
		waitForRole(t, p, client, group+": leading")
	}
	for name, namespace := range leases {
		if after := holderOf(t, p, client, namespace, name); after == before[name] {
			t.Errorf("Lease %s has the holder %s of before, want one of another term", name, after)
		}
	}
	select {
	case <-p.ended:
		t.Fatalf("the process ended with code %d", p.code)
	default:
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t); code != 0 {
		t.Errorf("annex ended with code %d after SIGTERM, want 0\n%s", code, p.stderr.String())
	}
}

// TestLeasesAreRetakenAtOnceAfterAKill has timings with which a Lease of a dead process would be free after an hour.
func TestLeasesAreRetakenAtOnceAfterAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hour := []string{"--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=40m"}
	first, client := startUp(t, dir, hour...)
	former := map[string]string{}
	for name, namespace := range leases {
		former[name] = holderOf(t, first, client, namespace, name)
	}
	first.signal(t, syscall.SIGKILL)
	first.wait(t)

	began := time.Now()
	second, client := startUp(t, dir, hour...)
	for name, namespace := range leases {
		for holderOf(t, second, client, namespace, name) == former[name] {
			if time.Since(began) > patience {
				t.Fatalf("Lease %s is still held by the process that was killed", name)
			}
		}
	}
}

func TestControllersRunAgainstACluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, client := startUp(t, dir)
	p := startAnnex(t, "controllers", "--kubeconfig="+filepath.Join(dir, "kubeconfig"), "--secure-port=0", "--leader-elect-namespace=default")
	holder := holderOf(t, p, client, "default", "annex-observer")
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t); code != 0 {
		t.Errorf("annex controllers ended with code %d, want 0\n%s", code, p.stderr.String())
	}
	lease, err := client.CoordinationV1().Leases("default").Get(t.Context(), "annex-observer", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if released := lease.Annotations["leadership.annex.io/released"]; *lease.Spec.HolderIdentity != "" || !strings.HasSuffix(released, holder) {
		t.Errorf("the Lease is held by %q and names %q as released, want it released by %q", *lease.Spec.HolderIdentity, released, holder)
	}
	members, err := client.CoordinationV1().Leases("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, lease := range members.Items {
		left = append(left, lease.Name)
	}
	if want := []string{"annex-clusterclaims", "annex-observer"}; !slices.Equal(left, want) {
		t.Errorf("the Leases %q are left, want %q: a process that has ended is no member any more", left, want)
	}
}

// startUp runs `annex up` with its log in the directory and returns an administrator's client.
func startUp(t *testing.T, dir string, flags ...string) (*process, kubernetes.Interface) {
	t.Helper()
	p := startAnnex(t, append(append([]string{"up", "--data-dir=" + dir}, ephemeral...), flags...)...)
	p.waitFor(t, &p.stdout, "export KUBECONFIG=")
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return p, client
}

// holderOf returns who holds the Lease, once somebody does.
func holderOf(t *testing.T, p *process, client kubernetes.Interface, namespace, name string) string {
	t.Helper()
	var holder string
	poll(t, p, func(ctx context.Context) error {
		lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if holder = ptr.Deref(lease.Spec.HolderIdentity, ""); holder == "" {
			return fmt.Errorf("nobody holds the Lease %s", name)
		}
		return nil
	})
	return holder
}

// give edits the Lease as somebody would by hand.
func give(t *testing.T, client kubernetes.Interface, namespace, name, holder string) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := client.CoordinationV1().Leases(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity = &holder
		_, err = client.CoordinationV1().Leases(namespace).Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitForRole waits for a line of /healthz/leadership that contains all the texts.
func waitForRole(t *testing.T, p *process, client kubernetes.Interface, wants ...string) {
	t.Helper()
	poll(t, p, func(ctx context.Context) error {
		body, err := client.CoordinationV1().RESTClient().Get().AbsPath("/healthz/leadership").DoRaw(ctx)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(body)) {
			missing := false
			for _, want := range wants {
				missing = missing || !strings.Contains(line, want)
			}
			if !missing {
				return nil
			}
		}
		return errors.New(string(body))
	})
}

// poll repeats the check until it succeeds, and fails with what it said last.
func poll(t *testing.T, p *process, check func(context.Context) error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for {
		err := check(t.Context())
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-p.ended:
			t.Fatalf("annex ended with code %d; last: %v\nstdout:\n%s\nstderr:\n%s", p.code, err, p.stdout.String(), p.stderr.String())
		case <-deadline:
			t.Fatalf("still: %v\nstdout:\n%s\nstderr:\n%s", err, p.stdout.String(), p.stderr.String())
		}
	}
}
