// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaims_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/clusterclaims/clusterid"
)

const (
	id  = v1alpha1.ClaimID
	set = v1alpha1.ClaimClusterSet
)

func provide(t *testing.T, c *cluster, literal string, clock clock.Clock) (stop func()) {
	t.Helper()
	o := clusterid.NewOptions()
	o.Host, o.Clock = c.config, clock
	if literal != "" {
		o.Source, o.ID = clusterid.SourceLiteral, literal
	}
	controller, err := clusterid.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, controller.Run)
}

func (c *cluster) waitProvisioned(t *testing.T, status metav1.ConditionStatus, reason string) *v1alpha1.ClusterClaim {
	t.Helper()
	return c.waitCondition(t, id, v1alpha1.ClaimProvisioned, status, reason)
}

func TestTheIDIsCreatedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	for literal, want := range map[string]string{"": "f3b1c9d2-0000-4000-8000-000000000001", "cluster-1": "cluster-1"} {
		c := startCluster(t, "f3b1c9d2-0000-4000-8000-000000000001")
		c.set(func() { c.noEvents = true })
		provide(t, c, literal, nil)
		first := c.waitProvisioned(t, metav1.ConditionTrue, "Provisioned")
		if first.Spec.Value != want {
			t.Errorf("the id is %q, want %q", first.Spec.Value, want)
		}
		c.delete(t, id)
		eventually(t, func() (bool, any) {
			again, err := c.claims.Get(t.Context(), id, metav1.GetOptions{})
			return err == nil && again.UID != first.UID && again.Spec.Value == want, err
		})
		// While something holds the claim there is no other.
		c.patch(t, id, `{"metadata":{"finalizers":["annex.test/hold"]}}`)
		c.delete(t, id)
		held := c.get(t, id)
		c.patch(t, id, `{"metadata":{"finalizers":null}}`)
		eventually(t, func() (bool, any) {
			again, err := c.claims.Get(t.Context(), id, metav1.GetOptions{})
			return err == nil && again.UID != held.UID && again.DeletionTimestamp == nil, err
		})
	}
}

// TestADeletionThatNoWatchShows deletes the claim between the first look at it and the beginning of the watch.
func TestADeletionThatNoWatchShows(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "u-1")
	c.watching = make(chan struct{})
	provide(t, c, "", testingclock.NewFakeClock(time.Now()))
	c.waitProvisioned(t, metav1.ConditionTrue, "Provisioned")
	c.delete(t, id)
	close(c.watching)
	eventually(t, func() (bool, any) {
		_, err := c.claims.Get(t.Context(), id, metav1.GetOptions{})
		return err == nil, err
	})
}

func TestWhatOthersHaveChosenStays(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "u-1")
	c.create(t, id, "theirs")
	stop := provide(t, c, "ours", nil)
	claim := c.waitProvisioned(t, metav1.ConditionFalse, "Differs")
	message := meta.FindStatusCondition(claim.Status.Conditions, v1alpha1.ClaimProvisioned).Message
	if claim.Spec.Value != "theirs" || !strings.Contains(message, `"theirs"`) || !strings.Contains(message, `"ours"`) {
		t.Errorf("the id is %q, and the condition says %q", claim.Spec.Value, message)
	}
	eventually(t, func() (bool, any) { return c.reasons() == "Differs", c.reasons() })

	// They may say the same, which does not make it ours.
	c.patch(t, id, `{"spec":{"value":"ours"}}`)
	claim = c.waitProvisioned(t, metav1.ConditionTrue, "SameByAnother")
	if len(claim.Annotations) != 0 {
		t.Errorf("the claim of somebody else was marked: %v", claim.Annotations)
	}
	stop()
	provide(t, c, "changed", nil)
	if claim = c.waitProvisioned(t, metav1.ConditionFalse, "Differs"); claim.Spec.Value != "ours" {
		t.Errorf("the claim of somebody else was changed to %q", claim.Spec.Value)
	}
	// An Event comes with each change of mind, and not more.
	eventually(t, func() (bool, any) { return c.reasons() == "Differs Differs", c.reasons() })
}

func TestAnOwnIDThatSomebodyHasChangedIsTheirs(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "u-1")
	provide(t, c, "", nil)
	c.waitProvisioned(t, metav1.ConditionTrue, "Provisioned")
	c.patch(t, id, `{"spec":{"value":"theirs"}}`)
	c.waitProvisioned(t, metav1.ConditionFalse, "Differs")
	c.patch(t, id, `{"metadata":{"labels":{"a":"b"}}}`)
	if got := c.waitProvisioned(t, metav1.ConditionFalse, "Differs").Spec.Value; got != "theirs" {
		t.Errorf("the id is %q", got)
	}
}

func TestAnOwnIDFollowsTheFlagOutsideASet(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "u-1")
	stop := provide(t, c, "one", nil)
	c.waitProvisioned(t, metav1.ConditionTrue, "Provisioned")
	stop()
	stop = provide(t, c, "two", nil)
	eventually(t, func() (bool, any) { value := c.get(t, id).Spec.Value; return value == "two", value })
	c.waitProvisioned(t, metav1.ConditionTrue, "Provisioned")
	stop()

	c.create(t, set, "fleet")
	clock := testingclock.NewFakeClock(time.Now())
	provide(t, c, "three", clock)
	claim := c.waitProvisioned(t, metav1.ConditionFalse, "Member")
	if claim.Spec.Value != "two" {
		t.Errorf("the id of a member is %q", claim.Spec.Value)
	}
	eventually(t, func() (bool, any) { return c.reasons() == "Member", c.reasons() })
	c.delete(t, set)
	stepUntil(t, clock, 10*time.Second, func() (bool, any) { value := c.get(t, id).Spec.Value; return value == "three", value })
	c.waitProvisioned(t, metav1.ConditionTrue, "Provisioned")
}

func TestClusterIDFlags(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		source clusterid.Source
		id     string
		want   string
	}{
		"default":               {source: clusterid.NewOptions().Source},
		"none":                  {source: "None"},
		"literal":               {source: "Literal", id: "cluster-1"},
		"literal without an id": {source: "Literal", want: "--cluster-id is empty"},
		"an id with dots":       {source: "Literal", id: "cluster.1", want: `--cluster-id "cluster.1" is not a cluster id`},
		"an id in upper case":   {source: "Literal", id: "Cluster", want: "is not a cluster id"},
		"a long id":             {source: "Literal", id: strings.Repeat("x", 64), want: "63"},
		"an id for nothing":     {source: "KubeSystemUID", id: "cluster-1", want: "set --cluster-id-source=Literal, or remove --cluster-id"},
		"an id for no one":      {source: "None", id: "cluster-1", want: "--cluster-id-source=None"},
		"unknown":               {source: "literal", id: "cluster-1", want: `--cluster-id-source "literal" is none of KubeSystemUID, Literal and None`},
		"empty":                 {want: "is none of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := (&clusterid.Options{Source: tc.source, ID: tc.id}).Validate()
			if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want)) {
				t.Errorf("got %v, want %q", errs, tc.want)
			}
		})
	}
}
