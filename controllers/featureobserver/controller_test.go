// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

const oneGate = `kubernetes_feature_enabled{name="One",stage=""} 1` + "\n"

// TestHostThatWentAwayIsAskedSoon: an interval after an interval might be more than a minute after a restart.
func TestHostThatWentAwayIsAskedSoon(t *testing.T) {
	t.Parallel()
	const features, retry = "/apis/features.k8s.io/v1alpha1/namespaces/kube-system/features", DefaultInterval / retryShare
	host := newPages(t)
	host.set("/metrics", oneGate)
	host.set("/version", `{"gitVersion":"v1.37.1"}`)
	host.set(features, `{"kind":"FeatureList","apiVersion":"features.k8s.io/v1alpha1","metadata":{},"items":[{"metadata":{"name":"One"},"status":{"source":"CommandLine"}}]}`)
	clock := clocktesting.NewFakeClock(time.Now())
	c, err := New(Options{Host: host.config(), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	// after steps the clock and returns how many rounds there were so far.
	after := func(step time.Duration) int {
		clock.Step(step)
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return clock.HasWaiters(), nil
		}); err != nil {
			t.Fatal(err)
		}
		return host.count(features)
	}
	got := []int{after(0), after(retry), after(DefaultInterval)}
	host.set("/metrics", "gone")
	got = append(got, after(DefaultInterval), after(retry))
	host.set("/metrics", oneGate)
	got = append(got, after(retry), after(retry))
	host.set(features, "gone")
	got = append(got, after(DefaultInterval), after(retry))
	if diff := cmp.Diff([]int{1, 1, 2, 3, 4, 5, 5, 6, 7}, got); diff != "" {
		t.Errorf("rounds (-want,+got):\n%s", diff)
	}
	if got := c.host.latest.version; got != "v1.37.1" {
		t.Errorf("the version is %q", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestKubeletsAreReadAtTheirPorts(t *testing.T) {
	t.Parallel()
	server := newPages(t)
	page := func(version string) {
		server.set("/metrics", fmt.Sprintf("kubernetes_build_info{git_version=%q} 1\n%s", version, oneGate))
	}
	page("v1.37.1")
	address, err := url.Parse(server.url)
	if err != nil {
		t.Fatal(err)
	}
	nodes := func(nodes ...string) {
		server.set("/api/v1/nodes", `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[`+strings.Join(nodes, ",")+`]}`)
	}
	node := func(name, port string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"status":{"addresses":[{"type":"ExternalIP","address":"203.0.113.1"},{"type":"InternalIP","address":%q},{"type":"InternalIP","address":"203.0.113.2"}],`+
			`"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}},"nodeInfo":{"kubeletVersion":"v1.36.%s"}}}`, name, address.Hostname(), port, port)
	}
	hostClient, err := httpClientFor(server.config())
	if err != nil {
		t.Fatal(err)
	}
	client, err := corev1client.NewForConfigAndClient(server.config(), hostClient)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelets{nodes: client, client: hostClient}
	// want compares which nodes were seen with which version, and which versions were not.
	want := func(want ...string) {
		t.Helper()
		v, got := k.view(), []string{}
		for _, s := range v.sightings {
			got = append(got, s.reporter+" "+s.page.version)
		}
		for _, u := range v.unread {
			got = append(got, "unread "+u.version)
		}
		diff := cmp.Diff(want, got, cmp.Transformer("set", func(list []string) map[string]bool {
			set := map[string]bool{}
			for _, one := range list {
				set[one] = true
			}
			return set
		}))
		if diff != "" {
			t.Errorf("view (-want,+got):\n%s", diff)
		}
	}
	want("unread ")
	k.read(t.Context())
	want("unread ")

	nodes(node("a", address.Port()), node("b", address.Port()), node("closed", "1"), node("starting", "0"))
	k.read(t.Context())
	want("a/metrics v1.37.1", "b/metrics v1.37.1", "unread v1.36.1", "unread v1.36.0")
	if k.known["a"].page != k.known["b"].page {
		t.Error("equal pages are kept twice")
	}

	// What was seen stays while the API or a kubelet is away, and goes with the node.
	page("v1.38.0")
	nodes(node("a", address.Port()), node("b", "1"))
	k.read(t.Context())
	want("a/metrics v1.38.0", "b/metrics v1.37.1")
	server.set("/api/v1/nodes", "away")
	k.read(t.Context())
	want("a/metrics v1.38.0", "b/metrics v1.37.1")
	nodes(node("b", "1"))
	k.read(t.Context())
	want("b/metrics v1.37.1")
}
