// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/resourcediscovery"
)

// round counts once, and returns when to count again.
func (c *counting) round() (time.Duration, error) {
	c.informed()
	again, err := c.reconcile(c.t.Context(), "ns/quota")
	c.informed()
	return again, err
}

// used returns what the status of the quota says.
func (c *counting) used() map[corev1.ResourceName]int64 {
	used := map[corev1.ResourceName]int64{}
	for name, amount := range c.quota.Status.Used {
		used[name] = amount.Value()
	}
	return used
}

// find has discovery answer so about kinds that are not known yet.
func (c *counting) find(kind *resourcediscovery.Kind, err error) {
	c.known.find = func(context.Context, schema.GroupResource) (*resourcediscovery.Kind, error) { return kind, err }
}

// failLists has lists of secrets fail, in place of counting them.
func (c *counting) failLists(err error) {
	c.objects.(*metadatafake.FakeMetadataClient).PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, err
	})
}

func TestWhenAQuotaIsCountedAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(c *counting)
		want   time.Duration
	}{
		"nothing is on its way": {func(c *counting) { c.secrets = 2 }, 0},
		"as many as were charged, of late": {func(c *counting) {
			c.secrets = 3
			c.charge(3)
		}, 0},
		"one that was charged is on its way": {func(c *counting) {
			c.charge(3)
			c.now = c.now.Add(time.Minute)
		}, period - time.Minute},
		"one was charged, and never stored": {func(c *counting) {
			c.charge(3)
			c.now = c.now.Add(period)
		}, 0},
		"somebody else writes meanwhile": {func(c *counting) {
			c.secrets = 1
			c.beforeWrite = func() { c.charge(1) }
		}, staleRetry},
		"there is no such kind yet": {func(c *counting) {
			c.find(nil, nil)
			c.quota.Spec.Hard["count/widgets.example.com"] = resource.MustParse("1")
		}, firstAsk},
		"one is on its way, and there is no such kind yet": {func(c *counting) {
			c.charge(3)
			c.find(nil, nil)
			c.quota.Spec.Hard["count/widgets.example.com"] = resource.MustParse("1")
		}, firstAsk},
		"fewer than before, and there is no such kind yet": {func(c *counting) {
			c.secrets = 2
			c.want("two", 2)
			c.secrets = 1
			c.find(nil, nil)
			c.quota.Spec.Hard["count/widgets.example.com"] = resource.MustParse("1")
		}, firstAsk},
		"the kind is gone": {func(c *counting) { c.failLists(apierrors.NewNotFound(corev1.Resource("secrets"), "")) }, staleRetry},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounting(t)
			c.want("at first", 0)
			tc.change(c)
			if again, err := c.round(); err != nil || again != tc.want {
				t.Errorf("counted again after %s, %v; want after %s", again, err, tc.want)
			}
		})
	}
}

func TestNumbersOfKindsThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	const widgets = corev1.ResourceName("count/widgets.example.com")
	secrets := map[corev1.ResourceName]int64{"secrets": 2, "count/secrets": 2}
	with := func(number int64) map[corev1.ResourceName]int64 {
		all := maps.Clone(secrets)
		all[widgets] = number
		return all
	}
	for name, tc := range map[string]struct {
		change func(c *counting)
		want   map[corev1.ResourceName]int64
		fails  bool
	}{
		"the server of the kind is away": {func(c *counting) { c.find(nil, away) }, with(7), true},
		"there is no such kind any more": {func(c *counting) { c.find(nil, nil) }, secrets, false},
		"the store does not answer": {func(c *counting) {
			c.find(nil, nil)
			c.failLists(away)
		}, map[corev1.ResourceName]int64{"secrets": 2, "count/secrets": 2}, true},
		"the kind is served no more": {func(c *counting) {
			c.find(nil, nil)
			c.failLists(apierrors.NewNotFound(corev1.Resource("secrets"), ""))
		}, map[corev1.ResourceName]int64{}, false},
		"nobody counts it": {func(c *counting) {
			c.find(nil, nil)
			c.quota.Spec.Hard["count/events"], c.quota.Spec.Hard["pods"] = resource.MustParse("1"), resource.MustParse("1")
		}, secrets, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounting(t)
			c.secrets = 2
			c.want("at first", 2)
			c.quota.Spec.Hard[widgets] = resource.MustParse("9")
			c.quota.Status.Used[widgets] = resource.MustParse("7")
			tc.change(c)
			if _, err := c.round(); (err != nil) != tc.fails {
				t.Errorf("got %v, want an error: %t", err, tc.fails)
			}
			if diff := cmp.Diff(tc.want, c.used()); diff != "" {
				t.Errorf("numbers (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestQuotasOfAScopeCountNothing(t *testing.T) {
	t.Parallel()
	expression := corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpExists}
	for name, tc := range map[string]struct {
		spec corev1.ResourceQuotaSpec
		want int64
	}{
		"without a scope":     {corev1.ResourceQuotaSpec{}, 3},
		"with a scope":        {corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}}, 0},
		"an empty selector":   {corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{}}, 3},
		"a selector of scope": {corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{expression}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounting(t)
			c.secrets = 3
			tc.spec.Hard = c.quota.Spec.Hard
			c.quota.Spec = tc.spec
			c.want(name, tc.want)
			if watched := len(c.following.concerned(corev1.Resource("secrets"))) > 0; watched != (tc.want > 0) {
				t.Errorf("secrets are watched: %t", watched)
			}
		})
	}
}

// TestWritesThatFail has the controller try again, but not for a quota that is gone.
func TestWritesThatFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err   error
		fails bool
	}{
		"the quota is gone":         {apierrors.NewNotFound(corev1.Resource("resourcequotas"), "quota"), false},
		"the store does not answer": {apierrors.NewInternalError(errors.New("away")), true},
	} {
		c := newCounting(t)
		c.secrets = 1
		c.failWrites = tc.err
		if _, err := c.round(); (err != nil) != tc.fails {
			t.Errorf("%s: got %v, want an error: %t", name, err, tc.fails)
		}
	}
}

func TestAQuotaIsWrittenOnlyWhenItsStatusChanges(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	c.secrets = 1
	c.want("at first", 1)
	for name, tc := range map[string]struct {
		change func()
		writes bool
	}{
		"nothing":          {func() {}, false},
		"another number":   {func() { c.secrets++ }, true},
		"another limit":    {func() { c.quota.Spec.Hard["secrets"] = resource.MustParse("20") }, true},
		"a limit that was": {func() { delete(c.quota.Spec.Hard, "count/secrets") }, true},
	} {
		tc.change()
		before := c.quota.ResourceVersion
		if _, err := c.round(); err != nil || (c.quota.ResourceVersion != before) != tc.writes {
			t.Errorf("%s: written: %t, want %t (%v)", name, c.quota.ResourceVersion != before, tc.writes, err)
		}
	}
}
