// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/controllers/leadership"
)

func TestNonsenseTimingsAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"the defaults":                       {},
		"short ones":                         {args: []string{"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms"}},
		"the deadline is the duration":       {args: []string{"--leader-elect-renew-deadline=15s"}, want: []string{"set the deadline below 13.5s"}},
		"the deadline is after the duration": {args: []string{"--leader-elect-renew-deadline=20s"}, want: []string{"set the deadline below 13.5s"}},
		"no time to stop":                    {args: []string{"--leader-elect-renew-deadline=13500ms"}, want: []string{"leaves no time to stop"}},
		"no second attempt":                  {args: []string{"--leader-elect-retry-period=9s"}, want: []string{"set the deadline above 10.8s"}},
		"before the next renewal":            {args: []string{"--leader-elect-renew-deadline=5s"}, want: []string{"set the deadline above 5s"}},
		"no duration":                        {args: []string{"--leader-elect-lease-duration=0s"}, want: []string{"at least 1s", "set the deadline below 0s"}},
		"a part of a second":                 {args: []string{"--leader-elect-lease-duration=15500ms"}, want: []string{"whole seconds"}},
		"nothing":                            {args: []string{"--leader-elect-retry-period=0s", "--leader-elect-stop-timeout=0s"}, want: []string{"--leader-elect-retry-period is 0s", "--leader-elect-stop-timeout is 0s"}},
		"negative": {args: []string{"--leader-elect-lease-duration=-15s", "--leader-elect-renew-deadline=-10s", "--leader-elect-retry-period=-2s", "--leader-elect-stop-timeout=-1s"},
			want: []string{"lease-duration is -15s", "retry-period is -2s", "after --leader-elect-retry-period", "stop-timeout is -1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timings := leadership.NewOptions().Timings
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			timings.AddFlags(flags)
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			err := errors.Join(timings.Validate()...)
			if (err == nil) != (tc.want == nil) {
				t.Errorf("the verdict is %v", err)
			}
			if err != nil {
				wantIn(t, "the error", err.Error(), tc.want...)
			}
		})
	}
}

func TestNewListsEveryMistake(t *testing.T) {
	t.Parallel()
	build := func(*leadership.Term) ([]leadership.Runnable, error) { return nil, nil }
	group := leadership.Group{Name: "g", Lease: types.NamespacedName{Namespace: "default", Name: "l"}, New: build}
	for name, tc := range map[string]struct {
		change func(*leadership.Options)
		groups []leadership.Group
		want   []string
	}{
		"nothing":           {groups: []leadership.Group{group}},
		"no client":         {change: func(o *leadership.Options) { o.Client = nil }, want: []string{"Options.Client is nil"}},
		"a bad client":      {change: func(o *leadership.Options) { o.Client = &rest.Config{Host: "://"} }, want: []string{"build the client for Leases"}},
		"owner":             {change: func(o *leadership.Options) { o.Owner = "a_b" }, want: []string{"a_b"}},
		"long owner":        {change: func(o *leadership.Options) { o.Owner = strings.Repeat("a", 33) }, want: []string{"at most 32"}},
		"half of replicas":  {change: func(o *leadership.Options) { o.Replicas.Name = "m" }, want: []string{"set both or none"}},
		"an empty group":    {groups: []leadership.Group{{}}, want: []string{"lacks a name"}},
		"no name":           {groups: []leadership.Group{{Lease: group.Lease, New: build}}, want: []string{"lacks a name"}},
		"no New":            {groups: []leadership.Group{{Name: "g", Lease: group.Lease}}, want: []string{"lacks a name"}},
		"no Lease":          {groups: []leadership.Group{{Name: "g", Lease: types.NamespacedName{Namespace: "default"}, New: build}}, want: []string{"lacks a name"}},
		"no namespace":      {groups: []leadership.Group{{Name: "g", Lease: types.NamespacedName{Name: "l"}, New: build}}, want: []string{"lacks a name"}},
		"the same group":    {groups: []leadership.Group{group, group}, want: []string{"two groups are called g", "two groups have the Lease default/l"}},
		"several at a time": {change: func(o *leadership.Options) { o.Client, o.Timings.RetryPeriod = nil, 0 }, want: []string{"Options.Client is nil", "retry-period"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := leadership.NewOptions()
			o.Client = &rest.Config{Host: "http://127.0.0.1:1"}
			if tc.change != nil {
				tc.change(&o)
			}
			_, err := leadership.New(o, tc.groups...)
			if (err == nil) != (tc.want == nil) {
				t.Errorf("the verdict is %v", err)
			}
			if err != nil {
				wantIn(t, "the error", err.Error(), tc.want...)
			}
		})
	}
}

// TestWithoutAServerNothingRuns has nobody listening.
func TestWithoutAServerNothingRuns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.candidate("a", as(&rest.Config{Host: "http://127.0.0.1:1"}))
	eventually(t, soon, "the status tells", func() (bool, any) {
		status := a.Statuses()[0]
		return status.Err != nil, status
	})
	a.stop()
	if diff := cmp.Diff(0, len(s.all("build", ""))); diff != "" {
		t.Errorf("terms (-want,+got):\n%s", diff)
	}
}

// TestInformersAreARunner ends with its context.
func TestInformersEndWithTheirContext(t *testing.T) {
	t.Parallel()
	factory := &factory{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := leadership.Informers("informers", factory).Run(ctx); err != nil {
		t.Error(err)
	}
	if !factory.started || !factory.shut {
		t.Errorf("the factory: %+v", factory)
	}
}

type factory struct{ started, shut bool }

func (f *factory) Start(<-chan struct{}) { f.started = true }
func (f *factory) Shutdown()             { f.shut = true }
