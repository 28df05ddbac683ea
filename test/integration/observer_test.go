// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/controllers/featureobserver"
	features "github.com/kube-annex/annex/generated/clientset/versioned/typed/features/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// observedNamespace is the test's own: `annex up` observes its host in kube-system.
const observedNamespace = "observed"

// TestObserver has the gates of three components, played by servers of metrics, observed in a real Annex.
func TestObserver(t *testing.T) {
	t.Parallel()
	server := framework.SharedServer()
	if _, err := server.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: observedNamespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := server.Annex.FeaturesV1alpha1().Features(observedNamespace)

	apiServer, scheduler, controllers := newComponent(t, "kube-apiserver"), newComponent(t, "kube-scheduler"), newComponent(t, "kube-controller-manager")
	all := map[string]string{}
	for i := range 250 {
		all[fmt.Sprintf("Gate%03d", i)] = "ALPHA 0"
	}
	some := map[string]string{"Gate000": "ALPHA 0", "Gate001": "ALPHA 0"}
	apiServer.set("v1.37.1", with(all, "Gate000", "BETA 1", "Dynamic", "BETA 1", "AllAlpha", "ALPHA 0", "not/a/name", " 1"))
	scheduler.set("v1.37.1", with(some, "Gate000", "BETA 1", "SchedulerOnly", " 1"))
	controllers.set("v1.37.1", with(some, "Gate000", "BETA 1"))

	// A server announces one of the gates itself, and a component has reported another, which nobody announced.
	announced := announce(t, client, "Dynamic")
	if _, err := server.Annex.FeaturesV1alpha1().FeatureReports(observedNamespace).Create(t.Context(), &v1alpha1.FeatureReport{Spec: v1alpha1.FeatureReportSpec{
		Component: "my-scheduler", Version: "v1", Instance: "my-scheduler-0", Features: []v1alpha1.ReportedFeature{{Name: "SchedulerOnly", Value: "Enabled"}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	o := observe(t, server.Config, apiServer, scheduler, controllers)
	// Gates of kube-apiserver, those alone of the scheduler.
	list := o.list(t, client)
	if got, want := len(list), 250+2; got != want {
		t.Errorf("there are %d Features, want %d", got, want)
	}
	o.want(t, client, map[string]string{
		"Gate000":       "On Beta v1.37.1 kube-apiserver:v1.37.1:Enabled kube-controller-manager:v1.37.1:Enabled kube-scheduler:v1.37.1:Enabled available",
		"Gate249":       "Off Alpha v1.37.1 kube-apiserver:v1.37.1:Disabled available",
		"SchedulerOnly": "On GA v1.37.1 kube-scheduler:v1.37.1:Enabled my-scheduler:v1:Enabled available",
	})

	t.Log("nothing changes")
	before := o.writes.Load()
	for range 3 {
		o.round(t)
	}
	o.wantUnchanged(t, client, list)
	if got := o.writes.Load(); got != before {
		t.Errorf("%d writes though nothing changed", got-before)
	}

	t.Log("another observer takes over")
	o.stop(t)
	o = observe(t, server.Config, apiServer, scheduler, controllers)
	o.wantUnchanged(t, client, list)
	if got := o.writes.Load(); got != 0 {
		t.Errorf("a second observer made %d writes though nothing changed", got)
	}

	t.Log("kube-apiserver is restarted with another value")
	apiServer.set("v1.37.1", with(all, "Gate000", "BETA 0"))
	o.round(t)
	conflicting := "Off Beta v1.37.1 kube-apiserver:v1.37.1:Disabled kube-controller-manager:v1.37.1:Enabled kube-scheduler:v1.37.1:Enabled available " +
		"conflict: Enabled in kube-controller-manager v1.37.1, kube-scheduler v1.37.1; Disabled in kube-apiserver v1.37.1."
	o.want(t, client, map[string]string{"Gate000": conflicting})
	if got := o.writes.Load(); got != 1 {
		t.Errorf("%d writes for one change", got)
	}

	t.Log("the scheduler is away, and the others are followed")
	scheduler.set("", nil)
	controllers.set("v1.38.0", with(some, "Gate000", "BETA 0"))
	o.round(t)
	o.want(t, client, map[string]string{
		"Gate000": "Off Beta v1.37.1 kube-apiserver:v1.37.1:Disabled kube-controller-manager:v1.38.0:Disabled kube-scheduler:v1.37.1:Enabled available " +
			"conflict: Enabled in kube-scheduler v1.37.1; Disabled in kube-apiserver v1.37.1, kube-controller-manager v1.38.0.",
		"SchedulerOnly": "On GA v1.37.1 kube-scheduler:v1.37.1:Enabled my-scheduler:v1:Enabled available",
	})
	t.Log("an observer that has never seen the scheduler keeps what is stored")
	o.stop(t)
	list = o.list(t, client)
	o = observe(t, server.Config, apiServer, scheduler, controllers)
	o.wantUnchanged(t, client, list)

	t.Log("the scheduler comes back without some gates")
	scheduler.set("v1.38.0", map[string]string{"Gate000": " 0"})
	o.round(t)
	o.want(t, client, map[string]string{
		"Gate000":       "Off Beta v1.37.1 kube-apiserver:v1.37.1:Disabled kube-controller-manager:v1.38.0:Disabled kube-scheduler:v1.38.0:Disabled available",
		"SchedulerOnly": "On GA v1.37.1 my-scheduler:v1:Enabled gone",
	})

	t.Log("a component is observed no longer, and its server is gone")
	o.stop(t)
	scheduler.server.Close()
	o = observe(t, server.Config, apiServer, controllers)
	o.want(t, client, map[string]string{"Gate000": "Off Beta v1.37.1 kube-apiserver:v1.37.1:Disabled kube-controller-manager:v1.38.0:Disabled available"})

	t.Log("Features come and go by others' hands")
	if err := client.Delete(t.Context(), "Gate001", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Create(t.Context(), &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "Unknown"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.round(t)
	o.want(t, client, map[string]string{
		"Gate001": "Off Alpha v1.37.1 kube-apiserver:v1.37.1:Disabled kube-controller-manager:v1.38.0:Disabled available",
		"Unknown": "  ",
	})

	left, err := client.Get(t.Context(), "Dynamic", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(announced, left); diff != "" {
		t.Errorf("the Feature of another (-want,+got):\n%s", diff)
	}
}

// component is a server with the metrics of a component.
type component struct {
	name, caFile string
	server       *httptest.Server
	page         atomic.Pointer[string]
}

func newComponent(t *testing.T, name string) *component {
	t.Helper()
	c := &component{name: name, caFile: filepath.Join(t.TempDir(), "ca.crt")}
	c.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		page := c.page.Load()
		if page == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprint(w, *page)
	}))
	t.Cleanup(c.server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
	if err := os.WriteFile(c.caFile, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// set makes the page of the component from "STAGE VALUE" by gate, or has it fail.
func (c *component) set(version string, gates map[string]string) {
	if version == "" {
		c.page.Store(nil)
		return
	}
	page := fmt.Sprintf("# TYPE kubernetes_build_info gauge\nkubernetes_build_info{git_version=%q} 1\n# TYPE kubernetes_feature_enabled gauge\n", version)
	for name, gate := range gates {
		stage, value, _ := strings.Cut(gate, " ")
		page += fmt.Sprintf("kubernetes_feature_enabled{name=%q,stage=%q} %s\n", name, stage, value)
	}
	c.page.Store(&page)
}

// with is gates with some more.
func with(gates map[string]string, more ...string) map[string]string {
	all := maps.Clone(gates)
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// announce makes a Feature as the server that owns it does.
func announce(t *testing.T, client features.FeatureInterface, name string) *v1alpha1.Feature {
	t.Helper()
	feature, err := client.Create(t.Context(), &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	feature.Status = v1alpha1.FeatureStatus{Source: v1alpha1.SourceCommandLine, State: v1alpha1.StateTurningOff, Version: "v0.1.0"}
	if feature, err = client.UpdateStatus(t.Context(), feature, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return feature
}

// observation is a running observer, whose rounds a test makes.
type observation struct {
	clock  *clocktesting.FakeClock
	cancel context.CancelFunc
	done   chan error
	writes atomic.Int64
}

// observe starts an observer and waits for its first round.
func observe(t *testing.T, config *rest.Config, components ...*component) *observation {
	t.Helper()
	o := &observation{clock: clocktesting.NewFakeClock(time.Now()), done: make(chan error, 1)}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodGet {
				o.writes.Add(1)
			}
			return next.RoundTrip(request)
		})
	})
	options := featureobserver.NewOptions()
	options.Host, options.Clock, options.Namespace = config, o.clock, observedNamespace
	for _, c := range components {
		options.Endpoints = append(options.Endpoints, featureobserver.Endpoint{Component: c.name, URL: c.server.URL + "/metrics", CAFile: c.caFile})
	}
	controller, err := featureobserver.New(*options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.cancel = cancel
	go func() { o.done <- controller.Run(ctx) }()
	t.Cleanup(cancel)
	began := time.Now()
	o.wait(t)
	t.Logf("the first round made %d writes in %s", o.writes.Load(), time.Since(began).Round(time.Millisecond))
	return o
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// round makes the next round and waits for its end.
func (o *observation) round(t *testing.T) {
	t.Helper()
	o.clock.Step(featureobserver.DefaultInterval)
	o.wait(t)
}

// wait waits until the observer waits.
func (o *observation) wait(t *testing.T) {
	t.Helper()
	poll.Eventually(t, time.Minute, "a round ends", func(context.Context) error {
		select {
		case err := <-o.done:
			return poll.Permanent(fmt.Errorf("the observer ended: %w", err))
		default:
		}
		return poll.Want(o.clock.HasWaiters(), "the observer works")
	})
}

func (o *observation) stop(t *testing.T) {
	t.Helper()
	o.cancel()
	select {
	case err := <-o.done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the observer does not stop")
	}
}

func (o *observation) list(t *testing.T, client features.FeatureInterface) map[string]v1alpha1.Feature {
	t.Helper()
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]v1alpha1.Feature{}
	for _, feature := range list.Items {
		byName[feature.Name] = feature
	}
	return byName
}

func (o *observation) wantUnchanged(t *testing.T, client features.FeatureInterface, want map[string]v1alpha1.Feature) {
	t.Helper()
	if diff := cmp.Diff(want, o.list(t, client)); diff != "" {
		t.Errorf("Features changed (-before,+after):\n%s", diff)
	}
}

// want compares some Features by what matters of their status.
func (o *observation) want(t *testing.T, client features.FeatureInterface, want map[string]string) {
	t.Helper()
	list, got := o.list(t, client), map[string]string{}
	for name := range want {
		feature := list[name]
		status := feature.Status
		line := fmt.Sprintf("%s %s %s", status.State, status.Stability, status.Version)
		for _, use := range status.Uses {
			line += fmt.Sprintf(" %s:%s:%s", use.Component, use.Version, use.Value)
		}
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.FeatureAvailable); c != nil {
			line += map[metav1.ConditionStatus]string{metav1.ConditionTrue: " available", metav1.ConditionFalse: " gone"}[c.Status]
		}
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.FeatureConflict); c != nil && c.Status == metav1.ConditionTrue {
			line += " conflict: " + c.Message
		}
		got[name] = line
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Features (-want,+got):\n%s", diff)
	}
}
