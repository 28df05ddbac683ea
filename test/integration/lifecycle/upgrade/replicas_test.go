// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/integration/lifecycle/upgrade/jars"
)

func TestMain(m *testing.M) { resourcetest.Main(m) }

// timings are as short as a busy machine allows.
var timings = lifecycle.Timings{
	LeaseDuration: 4 * time.Second, RenewInterval: 500 * time.Millisecond, AnswerWindow: 200 * time.Millisecond, WriteGrace: -1,
	RetryBase: 50 * time.Millisecond, RetryMax: time.Second, ProgressInterval: 100 * time.Millisecond, RecheckInterval: 2 * time.Second, Poll: 50 * time.Millisecond,
}

// scope is a test of which a part ends before it does.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
	s.cleanups = nil
}

// replica is a server with its engine, which can be killed: from then on nothing of the engine reaches the API.
type replica struct {
	release jars.Release
	config  *rest.Config
	scope   *scope
	cut     atomic.Bool
	stop    context.CancelFunc
	done    chan error
}

func (r *replica) end(t *testing.T) {
	t.Helper()
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop = nil
	select {
	case err := <-r.done:
		if err != nil {
			t.Errorf("an engine ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("an engine did not end")
	}
	r.scope.end()
}

func (r *replica) kill(t *testing.T) {
	t.Helper()
	r.cut.Store(true)
	r.end(t)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// installation is all replicas, by their instances.
type installation struct {
	t                 *testing.T
	prefix, namespace string
	replicas          map[string]*replica

	mu  sync.Mutex
	ran []string
}

var instances = []string{"a", "b", "c"}

func install(t *testing.T, release jars.Release, allowed bool) *installation {
	t.Helper()
	t.Parallel()
	id := string(uuid.NewUUID())
	i := &installation{t: t, prefix: "/" + id, namespace: "jars-" + id, replicas: map[string]*replica{}}
	t.Cleanup(func() {
		for _, r := range i.replicas {
			r.end(t)
		}
	})
	i.replaceAll(release, allowed)
	i.settles(string(release))
	return i
}

// replaceAll replaces one replica after the other.
func (i *installation) replaceAll(release jars.Release, allowed bool) {
	i.t.Helper()
	for _, instance := range instances {
		i.replace(instance, release, allowed)
	}
}

// replace ends a replica, if there is one, and starts one of a release in its place.
func (i *installation) replace(instance string, release jars.Release, allowed bool) {
	i.t.Helper()
	if before := i.replicas[instance]; before != nil {
		before.end(i.t)
	}
	r := &replica{release: release, scope: &scope{TB: i.t}, done: make(chan error, 1)}
	i.replicas[instance] = r
	o := jars.Options{
		Release: release, Instance: instance, Namespace: i.namespace, Prefix: i.prefix, AllowDataLoss: allowed, Timings: timings,
		RoundTripper: func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				if r.cut.Load() {
					return nil, errors.New("this replica was cut off")
				}
				return next.RoundTrip(request)
			})
		},
		Ran: i.note,
	}
	r.config = jars.Serve(r.scope, o)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.done <- jars.Run(ctx, o, r.config) }()
}

func (i *installation) note(instance, task string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ran = append(i.ran, instance+" "+task)
}

func (i *installation) notes() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.ran)
}

// any returns a replica that runs.
func (i *installation) any() *replica {
	i.t.Helper()
	for _, instance := range slices.Sorted(maps.Keys(i.replicas)) {
		if r := i.replicas[instance]; r.stop != nil {
			return r
		}
	}
	i.t.Fatal("no replica runs")
	return nil
}

func (i *installation) features() *versioned.Clientset {
	i.t.Helper()
	client, err := versioned.NewForConfig(i.any().config)
	if err != nil {
		i.t.Fatal(err)
	}
	return client
}

// wait waits until the Feature is as described.
func (i *installation) wait(what string, is func(f *v1alpha1.Feature) bool) (feature *v1alpha1.Feature) {
	i.t.Helper()
	client := i.features().FeaturesV1alpha1().Features(i.namespace)
	poll.Eventually(i.t, time.Minute, "the Feature is "+what, func(ctx context.Context) (err error) {
		if feature, err = client.Get(ctx, jars.Feature, metav1.GetOptions{}); err != nil {
			return err
		}
		return poll.Want(is(feature), fmt.Sprintf("%+v; tasks that ran: %s", feature.Status, i.notes()))
	})
	return feature
}

// settles waits until the feature is On in a version.
func (i *installation) settles(version string) *v1alpha1.Feature {
	i.t.Helper()
	return i.wait("settled at "+version, func(f *v1alpha1.Feature) bool {
		return f.Status.State == v1alpha1.StateOn && f.Status.Version == version && meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.FeatureSettled)
	})
}

// reason is why it is safe, or not, to change the version.
func reason(f *v1alpha1.Feature, kind string) string {
	c := meta.FindStatusCondition(f.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return c.Reason
}

func jar(version, name string, size any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version, "kind": "Jar", "metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size},
	}}
}

// own is the Jars of a replica's release, and leftovers those of the other.
func (r *replica) clients(t *testing.T) (own, leftovers dynamic.ResourceInterface) {
	t.Helper()
	client, err := dynamic.NewForConfig(r.config)
	if err != nil {
		t.Fatal(err)
	}
	ownResource, other := r.release.Resource()
	return client.Resource(ownResource).Namespace("default"), client.Resource(other).Namespace("default")
}

// fill makes some Jars of a replica's release.
func (r *replica) fill(t *testing.T, n int) {
	t.Helper()
	own, _ := r.clients(t)
	resource, _ := r.release.Resource()
	var size any = "large"
	if r.release == jars.Beta {
		size = int64(700)
	}
	for j := range n {
		if _, err := own.Create(t.Context(), jar(resource.GroupVersion().String(), fmt.Sprintf("jar-%d", j), size), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// sizes lists the sizes of Jars by their names.
func sizes(t *testing.T, client dynamic.ResourceInterface) map[string]any {
	t.Helper()
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for i := range list.Items {
		size, _, _ := unstructured.NestedFieldNoCopy(list.Items[i].Object, "spec", "size")
		out[list.Items[i].GetName()] = size
	}
	return out
}
