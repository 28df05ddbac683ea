// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/test/framework/syncbuffer"
)

// elector is an elector that runs until it is stopped or the test ends.
type candidate struct {
	*leadership.Elector
	t        *testing.T
	who      string
	registry metrics.KubeRegistry
	log      *syncbuffer.Buffer
	cancel   context.CancelFunc
	done     chan struct{}
	err      error
	// exits gets why the process would end.
	exits chan error
}

// plan is how an elector of a stage is made.
type plan struct {
	options leadership.Options
	group   leadership.Group
	more    []leadership.Group
	// build and work take the place of a single worker that waits for its context.
	build func(term *leadership.Term) ([]leadership.Runnable, error)
	work  func(ctx context.Context, term *leadership.Term) error
	// exits says that the process is expected to end, or in any case might.
	exits bool
	ended func()
	mux   leadership.Mux
}

// as is for an elector with another client configuration than the stage's.
func as(config *rest.Config) func(*plan) { return func(p *plan) { p.options.Client = config } }

func working(f func(ctx context.Context, term *leadership.Term) error) func(*plan) {
	return func(p *plan) { p.work = f }
}

func building(f func(term *leadership.Term) ([]leadership.Runnable, error)) func(*plan) {
	return func(p *plan) { p.build = f }
}

func exiting(p *plan) { p.exits = true }

// runnable is work that is watched by the stage.
func (s *stage) runner(who string, term *leadership.Term, work func(ctx context.Context, term *leadership.Term) error) leadership.Runnable {
	return leadership.Runnable{Name: "worker", Run: func(ctx context.Context) error {
		s.note("start", who, term)
		defer s.note("stop", who, term)
		defer context.AfterFunc(ctx, func() { s.note("told", who, term) })()
		if work != nil {
			return work(ctx, term)
		}
		<-ctx.Done()
		return nil
	}}
}

// group is one that has the Lease of the stage.
func (s *stage) group(who string, work func(ctx context.Context, term *leadership.Term) error) leadership.Group {
	return leadership.Group{Name: s.lease.Name, Lease: s.lease, New: func(term *leadership.Term) ([]leadership.Runnable, error) {
		return []leadership.Runnable{s.runner(who, term, work)}, nil
	}}
}

// elector starts one.
func (s *stage) candidate(who string, change ...func(*plan)) *candidate {
	s.t.Helper()
	p := &plan{options: leadership.NewOptions()}
	p.options.Client, p.options.Clock, p.options.Timings, p.options.Host = s.config, s.clock, s.timings, who
	p.options.DetectLeaks = true
	p.options.Metrics = leadership.NewMetrics()
	p.group = leadership.Group{Name: s.lease.Name, Lease: s.lease}
	p.ended = func() { s.end(who) }
	for _, c := range change {
		c(p)
	}
	p.group.New = func(term *leadership.Term) ([]leadership.Runnable, error) {
		s.note("build", who, term)
		if p.build != nil {
			return p.build(term)
		}
		return []leadership.Runnable{s.runner(who, term, p.work)}, nil
	}
	return run(s.t, p, who, append([]leadership.Group{p.group}, p.more...)...)
}

func run(t *testing.T, p *plan, who string, groups ...leadership.Group) *candidate {
	t.Helper()
	c := &candidate{t: t, who: who, log: &syncbuffer.Buffer{}, registry: metrics.NewKubeRegistry(), done: make(chan struct{}), exits: make(chan error, 10)}
	p.options.BeforeExit = func(why error) {
		if !p.exits {
			t.Errorf("%s ends: %v; its log:\n%s", who, why, c.log)
		}
		if p.ended != nil {
			p.ended()
		}
		c.exits <- why
	}
	p.options.Exit = func(code int) {
		if code != 1 {
			t.Errorf("the exit code is %d", code)
		}
	}
	if err := p.options.Metrics.Register(c.registry.Register); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.Elector, err = leadership.New(p.options, groups...); err != nil {
		t.Fatal(err)
	}
	if p.mux != nil {
		c.UseMux(p.mux)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(c.log), textlogger.Verbosity(2)))))
	c.cancel = cancel
	go func() {
		defer close(c.done)
		c.err = c.Run(ctx)
	}()
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", who, c.log)
		}
	})
	return c
}

// stop ends the elector and waits.
func (c *candidate) stop() {
	c.t.Helper()
	c.cancel()
	select {
	case <-c.done:
	case <-time.After(soon):
		c.t.Errorf("%s did not end", c.who)
	}
}

// awaitExit waits until the process would end, for a reason that contains the parts.
func (c *candidate) awaitExit(parts ...string) {
	c.t.Helper()
	select {
	case why := <-c.exits:
		wantIn(c.t, "the reason", why.Error(), parts...)
	case <-time.After(soon):
		c.t.Fatal("the process does not end")
	}
}

func (c *candidate) role(want leadership.Role) {
	c.t.Helper()
	eventually(c.t, soon, fmt.Sprintf("%s is %s", c.who, want), func() (bool, any) {
		status := c.Statuses()[0]
		return status.Role == want, status
	})
}

// metric returns the value of the series whose labels include those given as name, value pairs; of histograms, the count.
func (c *candidate) metric(name string, labels ...string) float64 {
	c.t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			have := map[string]string{}
			for _, pair := range series.GetLabel() {
				have[pair.GetName()] = pair.GetValue()
			}
			matches := true
			for i := 0; i < len(labels); i += 2 {
				matches = matches && have[labels[i]] == labels[i+1]
			}
			if matches {
				sum += series.GetGauge().GetValue() + series.GetCounter().GetValue() + float64(series.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func (c *candidate) awaitMetric(within time.Duration, want float64, name string, labels ...string) {
	c.t.Helper()
	eventually(c.t, within, fmt.Sprintf("%s%v is %v", name, labels, want), func() (bool, any) {
		got := c.metric(name, labels...)
		return got == want, got
	})
}
