// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/faults"
)

// watchesPerConnection is how many a client has on one connection, as a program with some informers.
const watchesPerConnection = 10

// crowd are watchers, half of a kind of the control plane, and half of one behind the aggregator.
type crowd struct {
	watchers []*watcher
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// collections are what is watched.
var collections = []string{"/api/v1/namespaces/default/configmaps", "/apis/multicluster.k8s.io/v1alpha1/clusterclaims"}

// gather starts watchers, all of one user.
func gather(t *testing.T, u *up, config *rest.Config, count int) *crowd {
	t.Helper()
	c := &crowd{}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	t.Cleanup(c.end)
	from := map[string]string{collections[0]: versionOf(t, u, 0), collections[1]: versionOf(t, u, 1)}
	for i := range count / watchesPerConnection {
		via, err := connect(config)
		if err != nil {
			t.Fatal(err)
		}
		for range watchesPerConnection {
			path := collections[i%len(collections)]
			w := &watcher{via: via, url: config.Host + path, from: from[path]}
			c.watchers = append(c.watchers, w)
			c.running.Go(func() { w.run(ctx) })
		}
	}
	return c
}

func versionOf(t *testing.T, u *up, collection int) string {
	t.Helper()
	var list metav1.ListInterface
	var err error
	if collection == 0 {
		list, err = u.client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	} else {
		list, err = u.annex.MulticlusterV1alpha1().ClusterClaims().List(t.Context(), metav1.ListOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return list.GetResourceVersion()
}

func (c *crowd) end() {
	c.stop()
	for _, w := range c.watchers {
		w.via.CloseIdleConnections()
	}
	c.running.Wait()
}

// all is an error unless all of them watch.
func (c *crowd) all(context.Context) error {
	missing := 0
	for _, w := range c.watchers {
		if !w.watching.Load() {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d of %d have no watch", missing, len(c.watchers))
	}
	return nil
}

// check compares what all have seen with what was written to each collection.
func (c *crowd) check(host string, written [2][]string) func(context.Context) error {
	return func(context.Context) error {
		for i, w := range c.watchers {
			if err := w.check(written[slices.Index(collections, w.url[len(host):])]); err != nil {
				return fmt.Errorf("watcher %d: %w", i, err)
			}
		}
		return nil
	}
}

// allow gives a group some rights.
func (u *up) allow(group string, rules ...rbacv1.PolicyRule) {
	u.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: group}, Rules: rules}
	if _, err := u.client.RbacV1().ClusterRoles().Create(u.t.Context(), role, metav1.CreateOptions{}); err != nil {
		u.t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: group},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: group},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: group}},
	}
	if _, err := u.client.RbacV1().ClusterRoleBindings().Create(u.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		u.t.Fatal(err)
	}
}

// everyKind are the rights of those whom this package runs as users.
var everyKind = rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"", "multicluster.k8s.io"}, Resources: []string{"configmaps", "clusterclaims"}}

// other is somebody who works meanwhile.
type other struct {
	configMaps kubernetes.Interface
	claims     versioned.Interface
	// written are the versions of what was written to each collection.
	written [2][]string
	slowest time.Duration
}

func newOther(t *testing.T, config *rest.Config) *other {
	t.Helper()
	o := &other{}
	var err error
	if o.configMaps, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if o.claims, err = versioned.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return o
}

// write creates an object of each collection.
func (o *other) write(ctx context.Context, n int) error {
	began := time.Now()
	configMap, err := o.configMaps.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("other-%d", n)}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	o.written[0] = append(o.written[0], configMap.ResourceVersion)
	o.slowest = max(o.slowest, time.Since(began))
	began = time.Now()
	claim, err := o.claims.MulticlusterV1alpha1().ClusterClaims().Create(ctx, &v1alpha1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("other-%d.example.com", n)}, Spec: v1alpha1.ClusterClaimSpec{Value: "a"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	o.written[1] = append(o.written[1], claim.ResourceVersion)
	o.slowest = max(o.slowest, time.Since(began))
	return nil
}

var heapLine = regexp.MustCompile(`(?m)^go_memstats_heap_alloc_bytes (\S+)$`)

// heap is what the server has on its heap after a collection, in MiB.
func (u *up) heap() int {
	u.t.Helper()
	client := u.client.Discovery().RESTClient()
	for range 3 { // Pools are empty after the second.
		if err := client.Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(u.t.Context()).Error(); err != nil {
			u.t.Fatal(err)
		}
	}
	metrics, err := client.Get().AbsPath("/metrics").DoRaw(u.t.Context())
	if err != nil {
		u.t.Fatal(err)
	}
	found := heapLine.FindSubmatch(metrics)
	if found == nil {
		u.t.Fatal("the server does not tell its heap")
	}
	bytes, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		u.t.Fatal(err)
	}
	return int(bytes / (1 << 20))
}

// TestManyWatchersComeBackAtOnce cuts the connections of a crowd of watchers at one moment. All of them get their watches again and miss
// nothing, somebody else's requests are answered meanwhile, and when they have gone, so have their goroutines and memory.
func TestManyWatchersComeBackAtOnce(t *testing.T) {
	t.Parallel()
	seeded(t)
	count := quickOr(300, 5000)
	u := startUp(t, "")
	u.allow("watchers", everyKind)
	u.allow("others", everyKind)
	between := faults.NewProxy(t, "tcp", address(u.config))
	watchers := u.as("watcher", "watchers")
	watchers.Host = "https://" + between.Address()
	o := newOther(t, u.as("other", "others"))
	if err := o.write(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	o.written = [2][]string{}
	before, heap := u.goroutines(), u.heap()

	c := gather(t, u, watchers, count)
	took := poll.Eventually(t, 5*patience, "all watch", c.all)
	if err := o.write(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, 5*patience, "all have seen the first events", c.check(watchers.Host, o.written))
	t.Logf("%d watches after %s: %d goroutines, %d MiB on the heap, %d MiB resident", count, took.Round(10*time.Millisecond), u.goroutines(), u.heap(), u.resident())

	o.slowest = 0
	connections := between.Cut()
	began := time.Now()
	writes := 2
	for ; writes < 12 || c.all(t.Context()) != nil; writes++ {
		if err := o.write(t.Context(), writes); err != nil {
			t.Fatalf("somebody else's request failed while watchers came back: %v", err)
		}
		if time.Since(began) > 5*patience {
			t.Fatalf("%d cut connections later: %v", connections, c.all(t.Context()))
		}
	}
	took = time.Since(began)
	poll.Eventually(t, 5*patience, "all have seen all events", c.check(watchers.Host, o.written))
	refused := 0
	for _, w := range c.watchers {
		refused += w.refused
		if w.watches < 2 {
			t.Errorf("a watcher was not cut off")
			break
		}
	}
	t.Logf("%d connections cut; all %d watches were back %s later, %d times one was told to come again; %d requests of somebody else meanwhile, the slowest took %s; %d MiB resident",
		connections, count, took.Round(10*time.Millisecond), refused, 2*(writes-2), o.slowest.Round(time.Millisecond), u.resident())
	if limit := 20 * time.Second; o.slowest > limit {
		t.Errorf("somebody else's slowest request took %s, more than %s", o.slowest, limit)
	}
	c.end()
	u.waitGoroutines(2*patience, before)
	if now, most := u.heap(), heap+30+count/100; now > most {
		t.Errorf("%d MiB on the heap when the watchers have gone, want at most %d (%d before)", now, most, heap)
	} else {
		t.Logf("%d MiB on the heap, %d before", now, heap)
	}
}
