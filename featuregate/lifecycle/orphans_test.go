// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/generated/clientset/versioned/fake"
)

// TestFeaturesWithoutAnyServerAreMarked looks at a Feature every 30 s while something happens to the Leases.
func TestFeaturesWithoutAnyServerAreMarked(t *testing.T) {
	t.Parallel()
	at := func(name, namespace, about string, version int, seconds int32) *coordinationv1.Lease {
		l := lease(name, "a", now.Add(time.Duration(version)*time.Second))
		l.Namespace, l.UID, l.ResourceVersion = namespace, types.UID(name), fmt.Sprint(version)
		l.Labels = map[string]string{announcerLabel: "server"}
		if about != "" {
			l.Labels[featuregate.LabelNamespace] = about
		}
		l.Spec.LeaseDurationSeconds = &seconds
		return l
	}
	one := func(l *coordinationv1.Lease) []*coordinationv1.Lease { return []*coordinationv1.Lease{l} }
	for name, tc := range map[string]struct {
		// leases are those at each look; the error means that they cannot be read.
		leases func(look int) ([]*coordinationv1.Lease, error)
		change func(*v1alpha1.Feature)
		// marked is at which look the Feature is; 0 for never.
		marked int
	}{
		"nobody was ever there":        {leases: func(int) ([]*coordinationv1.Lease, error) { return nil, nil }, marked: 5},
		"a server that was killed":     {leases: func(int) ([]*coordinationv1.Lease, error) { return one(at("a", "ns", "ns", 1, 30)), nil }, marked: 5},
		"a server of a former release": {leases: func(look int) ([]*coordinationv1.Lease, error) { return one(at("a", "ns", "", look, 30)), nil }},
		"a server that lives":          {leases: func(look int) ([]*coordinationv1.Lease, error) { return one(at("a", "ns", "ns", look, 30)), nil }},
		"its Leases are in annex-system": {leases: func(look int) ([]*coordinationv1.Lease, error) {
			return one(at("a", featuregate.LeaseNamespace, "ns", look, 30)), nil
		}},
		"a server of another namespace lives": {leases: func(look int) ([]*coordinationv1.Lease, error) {
			return one(at("a", featuregate.LeaseNamespace, "other", look, 30)), nil
		}, marked: 5},
		"a server that renews rarely": {leases: func(look int) ([]*coordinationv1.Lease, error) { return one(at("a", "ns", "ns", look/8, 600)), nil }},
		"a server that restarts": {leases: func(look int) ([]*coordinationv1.Lease, error) {
			if look%5 > 1 {
				return nil, nil
			}
			return one(at(fmt.Sprint("a", look), "ns", "ns", look, 30)), nil
		}},
		"Leases cannot be read": {leases: func(int) ([]*coordinationv1.Lease, error) { return nil, errors.New("no right") }},
		"Leases cannot be read for a while": {leases: func(look int) ([]*coordinationv1.Lease, error) {
			if look == 3 {
				return nil, errors.New("away")
			}
			return nil, nil
		}, marked: 8},
		"observed": {
			leases: func(int) ([]*coordinationv1.Lease, error) { return nil, nil },
			change: func(f *v1alpha1.Feature) { f.Status.Source = v1alpha1.SourceObserved },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := available(feature("On", on, byFlag))
			f.Namespace, f.Name, f.ResourceVersion = "ns", "Test", "1"
			if tc.change != nil {
				tc.change(f)
			}
			client, host, clock := fake.NewSimpleClientset(f), kubefake.NewClientset(), clocktesting.NewFakeClock(now)
			look := 0
			host.PrependReactor("list", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
				out := &coordinationv1.LeaseList{}
				leases, err := tc.leases(look)
				for _, l := range leases {
					if l.Namespace == action.GetNamespace() {
						out.Items = append(out.Items, *l)
					}
				}
				return true, out, err
			})
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			o := &Orphans{Client: client, Leases: host.CoordinationV1(), LeaseDuration: 30 * time.Second, Clock: clock}
			marked := 0
			for look = 1; look <= 20; look++ {
				current, err := client.FeaturesV1alpha1().Features("ns").Get(t.Context(), "Test", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if marked == 0 && !meta.IsStatusConditionTrue(current.Status.Conditions, v1alpha1.FeatureAvailable) {
					marked = look - 1
				}
				if err = store.Add(current); err != nil {
					t.Fatal(err)
				}
				o.look(t.Context(), store)
				clock.Step(30 * time.Second)
			}
			if marked != tc.marked {
				t.Errorf("marked at look %d, want %d (0 for never)", marked, tc.marked)
			}
			writes := 0
			for _, action := range client.Actions() {
				if action.GetVerb() == "update" {
					writes++
				}
			}
			if want := min(tc.marked, 1); writes != want {
				t.Errorf("%d writes, want %d", writes, want)
			}
			if tc.change != nil && len(host.Actions()) > 0 {
				t.Errorf("Leases were looked for although there are no Features to mark: %v", host.Actions())
			}
		})
	}
}
