// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/internal/heartbeat"
)

// testElector is an elector that does not run, by a clock that a test sets.
type testElector struct {
	*Elector
	now time.Duration
}

func newTestElector(groups ...string) *testElector {
	c := &testElector{Elector: &Elector{uid: "uid", ended: make(chan error, 1)}}
	c.options = NewOptions()
	c.options.Clock = Clock{Elapsed: func() time.Duration { return c.now }, Now: time.Now}
	for _, name := range groups {
		g := &group{
			Group: Group{Name: name}, options: c.options, clock: c.options.Clock, elector: c.Elector, done: make(chan struct{}),
			status: newStatus(c.options.Clock, c.options.Timings),
		}
		g.status.setFollowing()
		c.groups = append(c.groups, g)
	}
	return c
}

// leads has the group lead since a time.
func (c *testElector) leads(name string, since time.Duration, handOver context.CancelCauseFunc) {
	now := c.now
	c.now = since
	for _, g := range c.groups {
		if g.Name == name {
			g.status.setStarting(&Term{fence: fencing.Term{Holder: "x"}}, nil, handOver)
		}
	}
	c.now = now
}

func TestWhichGroupIsHandedOver(t *testing.T) {
	t.Parallel()
	const s = time.Second
	all := []string{"g0", "g1", "g2", "g3"}
	two := []time.Duration{10 * s, 20 * s}
	four := []time.Duration{10 * s, 40 * s, 20 * s, 30 * s}
	for name, tc := range map[string]struct {
		groups int
		// led is since when the first groups are led; the others are followed.
		led []time.Duration
		// others are the groups that the other replica can lead; nil says that there is none.
		others             []string
		stable, handedOver time.Duration
		want               string
	}{
		"the one that was led for the shortest time": {groups: 4, led: four, others: all, want: "g1"},
		"of those that others can lead":              {groups: 4, led: four, others: all[2:3], want: "g2"},
		"none that others can lead":                  {groups: 4, led: four, others: []string{"other"}},
		"the share":                                  {groups: 4, led: two, others: all},
		"the larger share":                           {groups: 3, led: two, others: all},
		"more than the share of all":                 {groups: 2, led: two, others: all, want: "g1"},
		"alone":                                      {groups: 4, led: four},
		"just stable":                                {groups: 4, led: four, others: all, stable: 70 * s, want: "g1"},
		"not stable yet":                             {groups: 4, led: four, others: all, stable: 71 * s},
		"handed one over a while ago":                {groups: 4, led: four, others: all, handedOver: 99 * s, want: "g1"},
		"handed one over just now":                   {groups: 4, led: four, others: all, handedOver: 100*s - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestElector(all[:tc.groups]...)
			c.now = 100 * s
			r := &replicas{
				elector: c.Elector, own: &heartbeat.Lease{Name: "me"}, live: map[string][]string{"me": all}, stableSince: tc.stable, handedOverAt: tc.handedOver,
			}
			if tc.others != nil {
				r.live["other"] = tc.others
			}
			got := ""
			for i, since := range tc.led {
				c.leads(all[i], since, func(why error) {
					got += all[i]
					if !errors.Is(why, errHandedOver) {
						t.Errorf("%s is released, since %v", all[i], why)
					}
				})
			}
			r.balance(t.Context())
			if got != tc.want {
				t.Errorf("handed over: %q, want %q", got, tc.want)
			}
			if handed := r.handedOverAt == c.now; handed != (tc.want != "") {
				t.Errorf("the time of the last handing over is %s", r.handedOverAt)
			}
		})
	}
}

func TestThoseWhoLeadMoreWaitLonger(t *testing.T) {
	t.Parallel()
	c := newTestElector("a", "b", "c")
	c.now = 5 * time.Second
	c.leads("a", 0, nil)
	c.leads("b", 0, nil)
	g := c.groups[2]
	g.observed.freeAt = 6 * time.Second
	if got := g.freeIn(0); got != time.Second {
		t.Errorf("without replicas it takes the Lease in %s", got)
	}
	c.replicas = &replicas{elector: c.Elector}
	if got := g.freeIn(0); got != time.Second+2*acquireDelayPerGroup {
		t.Errorf("with two groups it takes the Lease in %s", got)
	}
	if got := g.freeIn(8 * time.Second); got != 3*time.Second {
		t.Errorf("after a failure it takes the Lease in %s", got)
	}
	if got := g.freeIn(time.Second); got != time.Second+2*acquireDelayPerGroup {
		t.Errorf("long after a failure it takes the Lease in %s", got)
	}
}

func TestOtherGroupsGetAPartOfTheTime(t *testing.T) {
	t.Parallel()
	timings := Timings{LeaseDuration: 20 * time.Second, StopTimeout: 10 * time.Second}
	for age, want := range map[time.Duration]time.Duration{
		0: 2500 * time.Millisecond, 16500 * time.Millisecond: 2500 * time.Millisecond, 17 * time.Second: 2 * time.Second,
		18 * time.Second: time.Second, 19 * time.Second: time.Second, time.Hour: time.Second,
	} {
		if got := timings.grace(age); got != want {
			t.Errorf("%s after the renewal: %s, want %s", age, got, want)
		}
	}
}

// TestAStuckGroupIsNotWaitedFor ends the process when all groups but the stuck one have ended.
func TestAStuckGroupIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	c := newTestElector("stuck", "other")
	exited := make(chan int, 1)
	c.options.Exit = func(code int) { exited <- code }
	c.stop = func(error) { close(c.groups[1].done) }
	c.failStop(t.Context(), c.groups[0], &work{holder: "x"}, time.Hour, errStuck)
	select {
	case code := <-exited:
		if err := <-c.ended; code == 0 || !errors.Is(err, errStuck) {
			t.Errorf("the process ended with %d, %v", code, err)
		}
	default:
		t.Error("the process did not end")
	}
}

func TestCollectionsByTheirPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/api/v1/pods": true, "/api/v1/namespaces": true, "/api/v1/namespaces/default/pods": true, "/api/v1/namespaces/default": false,
		"/api/v1/nodes/a/status": false, "/api/v1": false, "/api": false, "/": false, "/healthz/a/b": false, "/version/x/y/z": false,
		"/apis/apps/v1/deployments": true, "/apis/apps/v1/namespaces/default/deployments": true, "/apis/apps/v1/namespaces/default/deployments/a": false,
		"/apis/apps/v1": false, "/apis/apps": false, "/apis": false, "/api/v1/pods/": true,
	} {
		if got := isCollection(path); got != want {
			t.Errorf("%s is a collection: %t, want %t", path, got, want)
		}
	}
}

func TestTheMessageOfARefusal(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"kind":"Status","apiVersion":"v1","message":"user a cannot list pods"}`: "user a cannot list pods",
		`{"kind":"Status","apiVersion":"v1"}`:                                     "GET /api/v1/pods is forbidden",
		"no":                                                                      "GET /api/v1/pods is forbidden",
	} {
		response := &http.Response{Body: io.NopCloser(strings.NewReader(body))}
		if got := reasonOf(httptest.NewRequest(http.MethodGet, "/api/v1/pods", http.NoBody), response); got != want {
			t.Errorf("of %s the message is %q", body, got)
		}
	}
}

func TestTheSameVersionOfALease(t *testing.T) {
	t.Parallel()
	lease := func(uid, version string) *coordinationv1.Lease {
		l := state{uid: uid}.lease()
		l.ResourceVersion = version
		return l
	}
	for name, tc := range map[string]struct {
		a, b *coordinationv1.Lease
		want bool
	}{
		"none":               {nil, nil, true},
		"made":               {nil, lease("1", "1"), false},
		"gone":               {lease("1", "1"), nil, false},
		"the same":           {lease("1", "1"), lease("1", "1"), true},
		"changed":            {lease("1", "1"), lease("1", "2"), false},
		"another Lease":      {lease("1", "1"), lease("2", "1"), false},
		"another, and newer": {lease("1", "1"), lease("2", "2"), false},
	} {
		if got := sameVersion(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: the same %t, want %t", name, got, tc.want)
		}
	}
}

func TestLeasesThatSayLittle(t *testing.T) {
	t.Parallel()
	empty := &coordinationv1.Lease{}
	if transitionsOf(nil) != 0 || transitionsOf(empty) != 0 || holderOf(nil) != "" || holderOf(empty) != "" {
		t.Error("a Lease without content has transitions, or a holder")
	}
	for seconds, want := range map[int32]time.Duration{-1: time.Minute, 0: time.Minute, 1: time.Second} {
		empty.Spec.LeaseDurationSeconds = &seconds
		if got := durationOf(empty, time.Minute); got != want {
			t.Errorf("a Lease of %d seconds lasts %s", seconds, got)
		}
	}
}

func TestThePageTellsTheNumberOfReplicas(t *testing.T) {
	t.Parallel()
	page := func(c *testElector) string {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		return w.Body.String()
	}
	c := newTestElector("a")
	if got := page(c); strings.Contains(got, "replicas") || strings.Contains(got, "nil") {
		t.Errorf("without replicas the page is %s", got)
	}
	c.replicas = &replicas{live: map[string][]string{"a": nil, "b": nil}}
	if got := page(c); !strings.Contains(got, "replicas: 2") {
		t.Errorf("with two replicas the page is %s", got)
	}
}

// testReplicas are the replicas of an elector with the name me, by Leases that are kept by a client alone.
func testReplicas(c *testElector) (*replicas, *fake.Clientset) {
	client := fake.NewClientset()
	c.options.Replicas.Namespace, c.options.Replicas.Name = "ns", "set"
	c.leases = client.CoordinationV1()
	r := newReplicas(c.Elector)
	r.own.Name = "me"
	return r, client
}

func TestAReplicaAnnouncesItself(t *testing.T) {
	t.Parallel()
	c := newTestElector("a", "b")
	r, client := testReplicas(c)
	for range 2 {
		if err := r.announce(t.Context()); err != nil {
			t.Errorf("the announcement failed: %v", err)
		}
	}
	lease, err := r.leases.Get(t.Context(), "me", metav1.GetOptions{})
	if err != nil || lease.Labels[replicasLabel] != "set" || lease.Annotations[groupsAnnotation] != "a,b" || *lease.Spec.LeaseDurationSeconds != 15 {
		t.Errorf("the Lease is %+v, %v", lease, err)
	}
	for _, verb := range []string{"update", "get"} {
		client.PrependReactor(verb, "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no right") })
		if err := r.announce(t.Context()); err == nil {
			t.Errorf("an announcement without the right to %s succeeds", verb)
		}
	}
}

func TestAnAnnouncementIsRenewedEveryThirdOfItsDuration(t *testing.T) {
	t.Parallel()
	c := newTestElector("a")
	r, client := testReplicas(c)
	c.options.Timings.RetryPeriod = time.Millisecond // how long it really pauses, half of which it may be early
	const almost = 5*time.Second - time.Millisecond/2
	rounds := []time.Duration{0, 2 * time.Second, almost - 1, almost, almost + 5*time.Second - time.Millisecond, almost + 5*time.Second, time.Minute, time.Minute + time.Second}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var announced []time.Duration
	for _, verb := range []string{"create", "update"} {
		client.PrependReactor(verb, "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			announced = append(announced, c.now)
			return false, nil, nil
		})
	}
	client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if rounds = rounds[1:]; len(rounds) == 0 {
			stop()
		} else {
			c.now = rounds[0]
		}
		return true, &coordinationv1.LeaseList{}, nil
	})
	r.run(ctx)
	if diff := cmp.Diff([]time.Duration{0, almost, almost + 5*time.Second, time.Minute}, announced); diff != "" {
		t.Errorf("announced at (-want,+got):\n%s", diff)
	}
	if _, err := r.leases.Get(t.Context(), "me", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease of a replica that has left: %v", err)
	}
}

func TestAFailedAnnouncementIsRepeatedInTheNextRound(t *testing.T) {
	t.Parallel()
	c := newTestElector("a")
	r, client := testReplicas(c)
	c.options.Timings.RetryPeriod = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	attempts, rounds := 0, 0
	client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		attempts++
		return attempts < 3, nil, errors.New("away")
	})
	client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if rounds++; rounds == 5 {
			stop()
		}
		return true, &coordinationv1.LeaseList{}, nil
	})
	r.run(ctx)
	if attempts != 3 {
		t.Errorf("in 5 rounds it was announced %d times, want 3: two failed", attempts)
	}
}

func replicaLease(name string, renewed int, groups string) coordinationv1.Lease {
	l := state{holder: name, renewed: renewed}.lease()
	l.Name, l.Namespace, l.ResourceVersion, l.Annotations = name, "ns", "1", map[string]string{groupsAnnotation: groups}
	l.Labels = map[string]string{replicasLabel: "set"}
	return *l
}

func TestReplicasLiveWhileTheyRenew(t *testing.T) {
	t.Parallel()
	c := newTestElector()
	r, client := testReplicas(c)
	var listed []coordinationv1.Lease
	var deleted []string
	client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &coordinationv1.LeaseList{Items: listed}, nil
	})
	client.PrependReactor("delete", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		deleted = append(deleted, action.(clienttesting.DeleteAction).GetName())
		return true, nil, nil
	})
	step := func(at time.Duration, stable time.Duration, live, dead []string, leases ...coordinationv1.Lease) {
		t.Helper()
		c.now, listed, deleted = at, leases, nil
		if err := r.refresh(t.Context()); err != nil {
			t.Errorf("at %s: %v", at, err)
		}
		if got := slices.Sorted(maps.Keys(r.live)); !slices.Equal(got, live) || !slices.Equal(deleted, dead) || r.stableSince != stable {
			t.Errorf("at %s: live %q since %s, dead %q; want %q since %s, %q", at, got, r.stableSince, deleted, live, stable, dead)
		}
	}
	const s = time.Second
	me, other := replicaLease("me", 1, "a"), replicaLease("other", 1, "a,b")
	step(0, 0, []string{"me", "other"}, nil, other, me)
	if got := r.live["other"]; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the groups of the other are %q", got)
	}
	step(10*s-1, 0, []string{"me", "other"}, nil, other, me)
	step(10*s, 10*s, nil, nil, other, me)
	me.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Unix(2, 0)))
	step(11*s, 11*s, []string{"me"}, nil, other, me)
	step(100*s-1, 100*s-1, nil, nil, other, me)
	step(100*s, 100*s-1, nil, nil, other, me)
	step(100*s+1, 100*s-1, nil, []string{"other"}, other, me)
	step(200*s, 100*s-1, nil, []string{"other"}, other, me) // its own Lease is none of a dead replica
	step(201*s, 100*s-1, nil, nil, me)
}

func TestLeasesOfDeadReplicasAreRemoved(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "leases"}
	for name, tc := range map[string]struct {
		err   error
		fails bool
	}{
		"removed":                  {nil, false},
		"removed by somebody else": {apierrors.NewNotFound(resource, "dead"), false},
		"renewed after all":        {apierrors.NewConflict(resource, "dead", nil), false},
		"without the right":        {apierrors.NewForbidden(resource, "dead", nil), true},
	} {
		c := newTestElector()
		r, client := testReplicas(c)
		var deleted []string
		client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &coordinationv1.LeaseList{Items: []coordinationv1.Lease{replicaLease("dead", 1, "")}}, nil
		})
		client.PrependReactor("delete", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			remove := action.(clienttesting.DeleteActionImpl)
			deleted = append(deleted, remove.Name+" "+*remove.DeleteOptions.Preconditions.ResourceVersion)
			return true, nil, tc.err
		})
		for _, c.now = range []time.Duration{0, 100 * time.Second, 100*time.Second + 1} {
			err := r.refresh(t.Context())
			if want := tc.fails && c.now > 100*time.Second; (err != nil) != want {
				t.Errorf("%s: at %s the error is %v", name, c.now, err)
			}
		}
		if diff := cmp.Diff([]string{"dead 1"}, deleted); diff != "" {
			t.Errorf("%s: deleted (-want,+got):\n%s", name, diff)
		}
	}
}

func TestAFailureOfReplicasIsNewsOnce(t *testing.T) {
	t.Parallel()
	r := &replicas{}
	if !r.record(errors.New("a")) || r.record(errors.New("a")) || r.record(nil) || !r.record(errors.New("a")) {
		t.Error("a failure is news when there was none before")
	}
}
