// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/fencing"
)

// state is a Lease in short: who renewed it when, in which term, for how long.
type state struct {
	uid, holder string
	transitions int32
	renewed     int
	seconds     int32
	// released is the annotation, and gone says that there is no Lease.
	released string
	gone     bool
}

func (s state) lease() *coordinationv1.Lease {
	if s.gone {
		return nil
	}
	if s.seconds == 0 {
		s.seconds = 10
	}
	if s.uid == "" {
		s.uid = "uid"
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: types.UID(s.uid)}}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &s.holder, LeaseTransitions: &s.transitions, LeaseDurationSeconds: &s.seconds,
		RenewTime: ptr.To(metav1.NewMicroTime(time.Unix(int64(s.renewed), 0))),
	}
	if s.released != "" {
		lease.Annotations = map[string]string{fencing.ReleasedAnnotation: s.released}
	}
	return lease
}

// TestWhenALeaseIsFree: a state is seen each second, from second 0 on; the own lease duration is 10 s.
func TestWhenALeaseIsFree(t *testing.T) {
	t.Parallel()
	held := state{holder: "a", renewed: 1}
	for name, tc := range map[string]struct {
		seen []state
		want int
	}{
		"none at first":                                  {seen: []state{{gone: true}}, want: 0},
		"held by nobody at first":                        {seen: []state{{}}, want: 0},
		"held at first":                                  {seen: []state{held}, want: 10},
		"seen again":                                     {seen: []state{held, held, held}, want: 10},
		"renewed":                                        {seen: []state{held, {holder: "a", renewed: 2}}, want: 11},
		"renewed with an earlier time":                   {seen: []state{held, {holder: "a", renewed: -3600}}, want: 11},
		"taken":                                          {seen: []state{held, {holder: "b", transitions: 1, renewed: 1}}, want: 11},
		"taken by the same":                              {seen: []state{held, {holder: "a", transitions: 1, renewed: 1}}, want: 11},
		"made anew":                                      {seen: []state{held, {uid: "other", holder: "a", renewed: 1}}, want: 11},
		"without a duration":                             {seen: []state{{holder: "a", seconds: -1}}, want: 10},
		"with a short duration":                          {seen: []state{{holder: "a", seconds: 3}}, want: 3},
		"the duration alone edited":                      {seen: []state{held, {holder: "a", renewed: 1, seconds: 1}}, want: 10},
		"shortened with a renewal":                       {seen: []state{held, {holder: "a", renewed: 2, seconds: 1}}, want: 10},
		"given to another by hand":                       {seen: []state{held, {holder: "b", renewed: 1, seconds: 1}}, want: 11},
		"a nonsense duration corrected":                  {seen: []state{{holder: "a", seconds: 100000}, {holder: "a", renewed: 2}}, want: 11},
		"deleted":                                        {seen: []state{held, {gone: true}}, want: 11},
		"deleted and made anew without holder":           {seen: []state{held, {gone: true}, {uid: "other"}}, want: 12},
		"cleared":                                        {seen: []state{held, {renewed: 1}}, want: 11},
		"cleared and touched":                            {seen: []state{held, {renewed: 1}, {renewed: 5}}, want: 12},
		"cleared and deleted":                            {seen: []state{held, {renewed: 1}, {gone: true}}, want: 12},
		"released":                                       {seen: []state{held, {renewed: 2, released: "uid;0;a"}}, want: 1},
		"released and touched":                           {seen: []state{held, {renewed: 2, released: "uid;0;a"}, {renewed: 3, released: "uid;0;a"}}, want: 2},
		"released in the name of another":                {seen: []state{held, {renewed: 2, released: "uid;0;b"}}, want: 11},
		"released in the name of another term":           {seen: []state{held, {renewed: 2, released: "uid;7;a"}}, want: 11},
		"released in the name of another Lease":          {seen: []state{held, {renewed: 2, released: "other;0;a"}}, want: 11},
		"released in nobody's name":                      {seen: []state{held, {renewed: 2, released: "uid;0;"}}, want: 11},
		"the next term released, unseen":                 {seen: []state{held, {transitions: 1, renewed: 3, released: "uid;1;b"}}, want: 1},
		"released by client-go after ours":               {seen: []state{{holder: "theirs", transitions: 1, released: "uid;0;a"}, {transitions: 1, renewed: 2, seconds: 1, released: "uid;0;a"}}, want: 11},
		"cleared, released in the name of another Lease": {seen: []state{held, {renewed: 1}, {renewed: 5, released: "other;0;a"}}, want: 12},
		"of another term, released in the name of one":   {seen: []state{held, {transitions: 1, renewed: 2, released: "uid;0;a"}}, want: 11},
		"held by this process":                           {seen: []state{held, {holder: "ours", transitions: 1}}, want: 1},
		"held by this process, deleted":                  {seen: []state{held, {holder: "ours", transitions: 1}, {gone: true}}, want: 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o observation
			for second, s := range tc.seen {
				o.observe(s.lease(), time.Duration(second)*time.Second, 10*time.Second, func(holder string) bool { return strings.HasPrefix(holder, "ours") })
			}
			if want := time.Duration(tc.want) * time.Second; o.freeAt != want {
				t.Errorf("free at %s, want %s", o.freeAt, want)
			}
		})
	}
}

func TestWhoseHoldersAreOurs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		owner, holder string
		want          bool
	}{
		"an earlier term":               {holder: "host_uid_3", want: true},
		"a host with underscores":       {holder: "my_host_uid_3", want: true},
		"another process":               {holder: "host_other_3"},
		"a host without a name":         {holder: "_uid_3", want: true},
		"client-go's":                   {holder: "host_uid"},
		"nobody":                        {holder: ""},
		"a former process, same owner":  {owner: "disk", holder: "host_disk.other_3", want: true},
		"another owner":                 {owner: "disk", holder: "host_disk2.other_3"},
		"the owner as a host":           {owner: "disk", holder: "disk._other_3"},
		"no owner, a process with one":  {holder: "host_.other_3"},
		"an owner, a process with none": {owner: "disk", holder: "host_disk_3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Elector{uid: "uid", options: Options{Owner: tc.owner}}
			if got := c.workHasEnded(tc.holder); got != tc.want {
				t.Errorf("ours(%q) = %t", tc.holder, got)
			}
		})
	}
}

func TestAGoroutineIsFoundByItsLabels(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	defer close(over)
	started := make(chan struct{}, 3)
	for _, holder := range []string{"one", "one", "other"} {
		go labelled(t.Context(), t.Name(), holder, "runner", func(ctx context.Context) {
			started <- struct{}{}
			<-over
		})
	}
	for range 3 {
		<-started
	}
	first := leftOver(t.Name(), "other", nil, true)
	if n := total(first); n != 2 {
		t.Errorf("%d goroutines are left over, want 2", n)
	}
	if !strings.Contains(stacks(first), "TestAGoroutineIsFoundByItsLabels") {
		t.Errorf("the stacks do not name the function: %s", stacks(first))
	}
	if n := total(leftOver(t.Name(), "none", first, false)); n != 2 {
		t.Errorf("at the second look, %d goroutines are left over, want the 2 of the first", n)
	}
	if n := total(leftOver(t.Name()+"2", "none", nil, true)); n != 0 {
		t.Errorf("%d goroutines of another group", n)
	}
}
