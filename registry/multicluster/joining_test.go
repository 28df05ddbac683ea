// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	hub "github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/registry/multicluster"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

// asked remembers who wanted to join.
type asked struct {
	mu sync.Mutex
	// meanwhile happens while the question is open.
	meanwhile func(round int)
	refuse    error
	ids       []string
	dry       []bool
	claims    []types.UID
}

func (a *asked) join(_ context.Context, set, id *hub.ClusterClaim, dryRun bool) error {
	a.mu.Lock()
	a.ids, a.dry, a.claims = append(a.ids, id.Spec.Value), append(a.dry, dryRun), append(a.claims, set.UID)
	round, meanwhile, refuse := len(a.ids), a.meanwhile, a.refuse
	a.mu.Unlock()
	if meanwhile != nil {
		meanwhile(round)
	}
	return refuse
}

func startAsking(t *testing.T, a *asked) *clients {
	t.Helper()
	o := options()
	o.Install = multicluster.InstallFor(a.join)
	return claimsOn(t, resourcetest.Start(t, o))
}

func TestWhoIsAskedBeforeAJoin(t *testing.T) {
	t.Parallel()
	for name, join := range creations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &asked{}
			c := startAsking(t, a)
			c.mustCreate(t, "clusterclaims", c.claim("region.example.com", "eu"))
			if err := join(t.Context(), c, set, "fleet"); !apierrors.IsInvalid(err) || len(a.ids) > 0 {
				t.Fatalf("joining without an id: %v, asked about %v; want 422 and no question", err, a.ids)
			}
			c.mustCreate(t, "clusterclaims", c.claim(id, "one"))
			if err := join(t.Context(), c, set, "fleet"); err != nil {
				t.Fatal(err)
			}
			dry := name == "dry-run create"
			if !slices.Equal(a.ids, []string{"one"}) || !slices.Equal(a.dry, []bool{dry}) {
				t.Errorf("asked about %v, dry %v; want once about one, dry %t", a.ids, a.dry, dry)
			}
			if !dry && a.claims[0] != c.get(t, set).GetUID() {
				t.Errorf("asked about the claim %s, which is not the one that is stored", a.claims[0])
			}
			if dry {
				return
			}
			// What exists already, or is changed, joins nothing.
			if err := c.create(t, "clusterclaims", c.claim(set, "fleet")); !apierrors.IsAlreadyExists(err) {
				t.Errorf("creating it twice: %v", err)
			}
			if err := valueWrites["forced apply"](t.Context(), c, set, "fleet"); err != nil {
				t.Errorf("applying the same: %v", err)
			}
			if len(a.ids) != 1 {
				t.Errorf("a member was asked about again: %v", a.ids)
			}
		})
	}
}

func TestARefusedJoinStoresNothing(t *testing.T) {
	t.Parallel()
	a := &asked{refuse: apierrors.NewServiceUnavailable("the hub is away")}
	c := startAsking(t, a)
	c.mustCreate(t, "clusterclaims", c.claim(id, "one"))
	if err := c.create(t, "clusterclaims", c.claim(set, "fleet")); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v, want the refusal as it is", err)
	}
	if _, err := c.resource("clusterclaims").Get(t.Context(), set, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the claim was stored: %v", err)
	}
}

// TestTheIDThatWasAskedAboutIsCommitted changes the id while the question is open: what was answered no longer counts.
func TestTheIDThatWasAskedAboutIsCommitted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(t *testing.T, c *clients)
		want   []string
		check  func(error) bool
	}{
		"another id": {
			change: func(t *testing.T, c *clients) {
				if err := valueWrites["merge patch"](t.Context(), c, id, "two"); err != nil {
					t.Error(err)
				}
			},
			want: []string{"one", "two"}, check: func(err error) bool { return err == nil },
		},
		"no id": {
			change: func(t *testing.T, c *clients) {
				if err := c.delete(t, id); err != nil {
					t.Error(err)
				}
			},
			want: []string{"one"}, check: apierrors.IsInvalid,
		},
		"an id of another life": {
			change: func(t *testing.T, c *clients) {
				if err := errors.Join(c.delete(t, id), c.create(t, "clusterclaims", c.claim(id, "one"))); err != nil {
					t.Error(err)
				}
			},
			want: []string{"one", "one"}, check: func(err error) bool { return err == nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &asked{}
			c := startAsking(t, a)
			a.meanwhile = func(round int) {
				if round == 1 {
					tc.change(t, c)
				}
			}
			c.mustCreate(t, "clusterclaims", c.claim(id, "one"))
			if err := c.create(t, "clusterclaims", c.claim(set, "fleet")); !tc.check(err) {
				t.Errorf("joining: %v", err)
			}
			if !slices.Equal(a.ids, tc.want) {
				t.Errorf("asked about %v, want %v", a.ids, tc.want)
			}
		})
	}
}

func TestReservationsAreSelectedByCluster(t *testing.T) {
	t.Parallel()
	c := claimsOn(t, resourcetest.Start(t, options()))
	for _, r := range []struct{ set, id, cluster string }{{"fleet", "one", "u-1"}, {"fleet", "two", "u-2"}, {"other", "one", "u-1"}} {
		c.mustCreate(t, "clusteridreservations", c.object("ClusterIDReservation", v1alpha1.ReservationName(r.set, r.id), map[string]any{
			"clusterSet": r.set, "clusterID": r.id, "clusterUID": r.cluster, "claimUID": "c",
		}))
	}
	for selector, want := range map[string]int{"spec.clusterUID=u-1": 2, "spec.clusterSet=fleet": 2, "spec.clusterID=one,spec.clusterSet=other": 1, "spec.clusterUID=u-3": 0} {
		var list *unstructured.UnstructuredList
		list, err := c.resource("clusteridreservations").List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != want {
			t.Errorf("%s selects %d, want %d", selector, len(list.Items), want)
		}
	}
}
