// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/controllers/featureobserver"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

// changedGate is one that kube-apiserver knows and does nothing with.
const changedGate = "CloudControllerManagerWebhook"

// TestStockClusterIsObserved compares the Features of a stock cluster with what its components say themselves.
func TestStockClusterIsObserved(t *testing.T) {
	unregisterAtEnd(t)
	a := startAnnex(t)
	kubelet := oldKubelet(t, "observed-1", "observed-2")

	options := featureobserver.NewOptions()
	options.Interval = 3 * time.Second
	options.Kubelets, options.KubeletCAFile, options.Kubeconfig = true, kubelet.caFile, metricsReader(t, kubelet)
	for component, address := range host.Metrics {
		options.Endpoints = append(options.Endpoints, featureobserver.Endpoint{Component: component, URL: address})
	}
	seen := runObserver(t, options)

	want := stated(t, "kube-apiserver", host.URL()+"/metrics")
	for component, address := range host.Metrics {
		for gate, uses := range stated(t, component, address) {
			want[gate] += uses
		}
	}
	want["NodeSwap"] += "kubelet v1.35.0 Disabled Beta\n"
	want["OnlyInKubelet"] = "kubelet v1.35.0 Enabled GA\n"
	if got := len(want); got < 240 {
		t.Errorf("the components state %d gates, want about 250", got)
	}
	poll.Eventually(t, patience, "the Features say what the components do", func(ctx context.Context) error {
		got := map[string]string{}
		for name, feature := range observed(ctx, t, a) {
			for _, use := range feature.Status.Uses {
				got[name] += fmt.Sprintln(use.Component, use.Version, use.Value)
			}
		}
		bare := maps.Clone(want)
		for name, lines := range bare {
			bare[name] = regexp.MustCompile(`(?m) \w+$`).ReplaceAllString(sorted(lines), "")
		}
		if diff := cmp.Diff(bare, got); diff != "" {
			return fmt.Errorf("uses (-want,+got):\n%s", diff)
		}
		return nil
	})
	for name, feature := range observed(t.Context(), t, a) {
		status := &feature.Status
		leading := strings.Fields(sorted(want[name]))
		state := map[string]string{"Enabled": "On", "Disabled": "Off"}[leading[2]]
		got := fmt.Sprintln(status.State, status.Configured, status.Stability, status.Version, status.Source, status.Default, len(status.Tasks))
		if diff := cmp.Diff(fmt.Sprintln(state, leading[2], leading[3], leading[1], "Observed", "", 0), got); diff != "" {
			t.Errorf("Feature %s (-want,+got):\n%s", name, diff)
		}
		mixed := strings.Contains(want[name], "Enabled") && strings.Contains(want[name], "Disabled")
		if conflict := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.FeatureConflict); conflict != mixed {
			t.Errorf("Feature %s has Conflict %v: %s", name, conflict, want[name])
		}
	}

	k := framework.NewKubectl(t, root, host.Kubeconfig)
	table := k.Run(t, "get", "features", "-n", "kube-system", "-o", "wide", "--no-headers")
	if got := strings.Count(table, "\n"); got != len(want) {
		t.Errorf("kubectl shows %d Features, want %d:\n%s", got, len(want), table)
	}
	k.Want(t, `(?m)^NodeSwap +(On|Off) +\w+ +Observed +\d on, 1 off +\S+ +v1\.37\.1 +Unknown$`, "get", "features", "-n", "kube-system", "-o", "wide")
	if !strings.Contains(k.Run(t, "get", "feature", changedGate, "-n", "kube-system"), changedGate+"   Off ") {
		t.Errorf("%s is not off", changedGate)
	}

	// With everything told, a round costs no write.
	before, rounds, versions := seen.writes.Load(), seen.lists.Load(), resourceVersions(t, a)
	poll.Eventually(t, patience, "three more rounds are made", func(context.Context) error {
		if seen.lists.Load() < rounds+3 {
			return errors.New("not yet")
		}
		return nil
	})
	if got := seen.writes.Load() - before; got != 0 {
		t.Errorf("%d writes though nothing changed", got)
	}
	if diff := cmp.Diff(versions, resourceVersions(t, a)); diff != "" {
		t.Errorf("Features were written though nothing changed (-before,+after):\n%s", diff)
	}
	if seen.proxied.Load() {
		t.Error("the observer went through nodes/proxy")
	}

	t.Cleanup(func() { restartHost(context.Background(), t) })
	restartHost(t.Context(), t, "--feature-gates="+changedGate+"=true")
	poll.Eventually(t, patience, "another value of kube-apiserver shows", func(ctx context.Context) error {
		feature, err := a.client.FeaturesV1alpha1().Features("kube-system").Get(ctx, changedGate, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conflict := meta.FindStatusCondition(feature.Status.Conditions, v1alpha1.FeatureConflict)
		if feature.Status.State != v1alpha1.StateOn || conflict == nil || conflict.Message != "Enabled in kube-apiserver v1.37.1; Disabled in kube-controller-manager v1.37.1, kube-scheduler v1.37.1." {
			return fmt.Errorf("the status is %v", feature.Status)
		}
		return nil
	})
}

func restartHost(ctx context.Context, t *testing.T, more ...string) {
	t.Helper()
	host.KillAPIServer()
	if err := host.StartAPIServer(ctx, more...); err != nil {
		t.Fatal(err)
	}
}

// observed are the Features that the observer keeps.
func observed(ctx context.Context, t *testing.T, a *annex) map[string]v1alpha1.Feature {
	t.Helper()
	list, err := a.client.FeaturesV1alpha1().Features("kube-system").List(ctx, metav1.ListOptions{FieldSelector: "status.source=Observed"})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]v1alpha1.Feature{}
	for _, feature := range list.Items {
		byName[feature.Name] = feature
	}
	return byName
}

func resourceVersions(t *testing.T, a *annex) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for name, feature := range observed(t.Context(), t, a) {
		versions[name] = feature.ResourceVersion
	}
	return versions
}

// sorted puts the lines of uses into the order of a Feature: kube-apiserver first, then by name.
func sorted(lines string) string {
	out := ""
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
		for line := range strings.Lines(lines) {
			if strings.HasPrefix(line, component+" ") {
				out += line
			}
		}
	}
	return out
}

var (
	statedGate  = regexp.MustCompile(`(?m)^kubernetes_feature_enabled\{name="(\w+)",stage="([A-Z]*)"\} ([01])$`)
	statedStage = map[string]string{"": "GA", "ALPHA": "Alpha", "BETA": "Beta", "DEPRECATED": "Deprecated"}
)

// stated reads, as an admin with curl does, which gates a component has: "component version value stability" by gate.
func stated(t *testing.T, component, address string) map[string]string {
	t.Helper()
	config := rest.CopyConfig(host.Config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s says %s (%v)", address, response.Status, err)
	}
	gates := map[string]string{}
	for _, match := range statedGate.FindAllSubmatch(text, -1) {
		name, value := string(match[1]), map[string]string{"0": "Disabled", "1": "Enabled"}[string(match[3])]
		if name != "AllAlpha" && name != "AllBeta" {
			gates[name] = fmt.Sprintln(component, cluster.Version, value, statedStage[string(match[2])])
		}
	}
	t.Logf("%s states %d gates", component, len(gates))
	return gates
}

// requests are what an observer asks of the host.
type requests struct {
	writes, lists atomic.Int64
	proxied       atomic.Bool
}

// runObserver runs an observer until the test ends.
func runObserver(t *testing.T, options *featureobserver.Options) *requests {
	t.Helper()
	seen := &requests{}
	options.Host = rest.CopyConfig(host.Config)
	options.Host.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(request *http.Request) (*http.Response, error) {
			switch {
			case request.Method != http.MethodGet:
				seen.writes.Add(1)
			case strings.HasSuffix(request.URL.Path, "/features"):
				seen.lists.Add(1)
			case strings.Contains(request.URL.Path, "/proxy"):
				seen.proxied.Store(true)
			}
			return next.RoundTrip(request)
		})
	})
	controller, err := featureobserver.New(*options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return seen
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
