// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package singlewriter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/test/framework"
)

const (
	workers    = 3
	groupCount = 10
	// shown is how many violations are printed.
	shown = 10
)

// Options say what is proven.
type Options struct {
	// Annex and Binary are the programs.
	Annex, Binary string
	Namespace     string
	Timings       leadership.Timings
	Faults        []Fault
	Seed          uint64
	// Plain has the workers write without naming their terms; then it is intervals that are checked, and not the history.
	Plain bool
	// DropTerms has the proxies take the terms off the writes.
	DropTerms bool
}

// Proof is a server, and workers that have a bad time.
type Proof struct {
	options  Options
	groups   []string
	dataDir  string
	server   *framework.Process
	admin    atomic.Pointer[kubernetes.Clientset]
	history  *History
	lanes    []*lane
	restarts chan restart
	// calm is for faults during which nothing else may happen.
	calm sync.RWMutex

	counting sync.Mutex
	counts   map[string]int
}

// restart is a wish for the server to be away for some time.
type restart struct {
	away time.Duration
	done chan struct{}
}

// Start starts all processes; they end with the test.
func Start(t testing.TB, options Options) *Proof {
	t.Helper()
	p := &Proof{options: options, dataDir: t.TempDir(), restarts: make(chan restart), counts: map[string]int{}}
	for i := range groupCount {
		p.groups = append(p.groups, fmt.Sprintf("group-%d", i))
	}
	p.history = NewHistory(options.Namespace, p.groups)
	output := t.TempDir()
	for i := range workers {
		proxy := NewProxy()
		proxy.DropTerms = options.DropTerms
		t.Cleanup(proxy.Close)
		args := []string{
			"-server", proxy.URL, "-namespace", options.Namespace, "-groups", fmt.Sprint(groupCount), "-spread",
			"-lease-duration", options.Timings.LeaseDuration.String(), "-renew-deadline", options.Timings.RenewDeadline.String(),
			"-retry-period", options.Timings.RetryPeriod.String(), "-stop-timeout", options.Timings.StopTimeout.String(),
			"-spread-after", options.Timings.BalanceAfter.String(), "-finish", (options.Timings.LeaseDuration / 8).String(),
		}
		if options.Plain {
			args = append(args, "-plain")
		}
		p.lanes = append(p.lanes, &lane{
			Proof: p, proxy: proxy, worker: NewWorker(fmt.Sprintf("worker%d", i), options.Binary, output, args...),
			random: rand.New(rand.NewPCG(options.Seed, uint64(i))),
		})
	}
	p.startServer(t)
	p.prepare(t)
	following, stop := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() { followed <- p.history.Follow(following, filepath.Join(p.dataDir, "etcd", "client.sock")) }()
	t.Cleanup(func() {
		stop()
		if err := <-followed; err != nil {
			t.Errorf("following etcd: %v", err)
		}
	})
	for _, l := range p.lanes {
		if err := l.worker.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.worker.Kill)
	}
	return p
}

func (p *Proof) startServer(t testing.TB) {
	t.Helper()
	p.server = framework.StartProcess(t, p.options.Annex, p.dataDir)
	config := p.server.Config(t)
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	p.admin.Store(admin)
	for _, l := range p.lanes {
		if err := l.proxy.Use(config); err != nil {
			t.Fatal(err)
		}
	}
}

// prepare makes what runners write to.
func (p *Proof) prepare(t testing.TB) {
	t.Helper()
	client := p.admin.Load().CoreV1()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.options.Namespace}}
	if _, err := client.Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, group := range p.groups {
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: group}}
		if _, err := client.ConfigMaps(p.options.Namespace).Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Run makes so many faults happen, and returns when they have or a violation was found.
func (p *Proof) Run(t testing.TB, faults int) {
	t.Helper()
	p.Settle(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, len(p.lanes))
	for i, l := range p.lanes {
		go func() { failed <- l.run(ctx, (faults+i)/len(p.lanes)) }()
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for running := len(p.lanes); running > 0; {
		select {
		case err := <-failed:
			running--
			if err != nil {
				t.Error(err)
				cancel()
			}
		case request := <-p.restarts:
			p.server.Kill()
			wait(ctx, request.away)
			p.startServer(t)
			close(request.done)
		case <-ticker.C:
			if len(p.Violations(t)) > 0 {
				cancel()
			}
		}
	}
	for _, l := range p.lanes {
		l.proxy.Heal()
	}
}

func (p *Proof) count(name string) {
	p.counting.Lock()
	defer p.counting.Unlock()
	p.counts[name]++
}

// Violations are those of what is checked: intervals of plain workers, the history of others.
func (p *Proof) Violations(t testing.TB) []string {
	t.Helper()
	if !p.options.Plain {
		return p.history.Violations()
	}
	intervals, _ := p.intervals(t)
	return Overlaps(intervals)
}

func (p *Proof) intervals(t testing.TB) (all []Interval, refused int) {
	t.Helper()
	for _, l := range p.lanes {
		intervals, n, err := l.worker.Report()
		if err != nil {
			t.Fatal(err)
		}
		all, refused = append(all, intervals...), refused+n
	}
	return all, refused
}

// Settle waits until every group has one leader, which writes.
func (p *Proof) Settle(t testing.TB) {
	t.Helper()
	const limit = 20 * time.Second
	for _, l := range p.lanes {
		if ended, err := l.worker.Ended(); err != nil {
			t.Error(err)
		} else if ended {
			if err := l.worker.Start(); err != nil {
				t.Fatal(err)
			}
		}
		for _, group := range p.groups {
			l.worker.Tell("on " + group)
		}
	}
	from, began := p.history.Revision(), time.Now()
	for {
		wrong := p.unsettled(t, from)
		if len(wrong) == 0 {
			t.Logf("every group had one leader after %s", time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > limit {
			t.Fatalf("%s after the last fault: %s", limit, strings.Join(wrong, "; "))
		}
		wait(t.Context(), 50*time.Millisecond)
	}
}

func (p *Proof) unsettled(t testing.TB, from int64) []string {
	t.Helper()
	var wrong []string
	if silent := p.history.SilentSince(from); len(silent) > 0 {
		wrong = append(wrong, fmt.Sprintf("nobody leads and writes %v", silent))
	}
	intervals, _ := p.intervals(t)
	running := Running(intervals)
	for _, group := range p.groups {
		if running[group] != 1 {
			wrong = append(wrong, fmt.Sprintf("%d runners of %s", running[group], group))
		}
	}
	for _, l := range p.lanes {
		if ended, err := l.worker.Ended(); ended {
			if err = errors.Join(err, l.worker.Start()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return wrong
}

// Finish stops the workers, one after the other, and sees that nothing stays held.
func (p *Proof) Finish(t testing.TB) {
	t.Helper()
	for _, l := range p.lanes {
		if err := l.worker.Stop(5 * p.options.Timings.LeaseDuration); err != nil {
			t.Error(err)
		}
	}
	began := time.Now()
	for {
		held := p.history.Unreleased()
		if len(held) == 0 {
			return
		}
		if time.Since(began) > p.options.Timings.LeaseDuration {
			t.Errorf("not released by workers that were told to stop: %v", held)
			return
		}
		wait(t.Context(), 20*time.Millisecond)
	}
}

// Verdict fails the test with what was violated and how to make it happen again, and logs what was seen.
func (p *Proof) Verdict(t testing.TB) {
	t.Helper()
	violations := p.Violations(t)
	if len(violations) > 0 {
		t.Errorf("%d violations, the first of which:\n%s", len(violations), strings.Join(violations[:min(shown, len(violations))], "\n"))
	}
	if _, _, fewest := p.history.Counts(); fewest == 0 {
		t.Error("a group was never written")
	}
	// Three workers may try again after each retry period; hand-overs come on top.
	if most := 4 * int(time.Second/p.options.Timings.RetryPeriod); p.history.Busiest() > most {
		t.Errorf("%d terms of one group began within a second; %d are what retry periods allow", p.history.Busiest(), most)
	}
	t.Log(p.Summary(t))
}

// Summary says what was seen.
func (p *Proof) Summary(t testing.TB) string {
	t.Helper()
	writes, terms, fewest := p.history.Counts()
	intervals, refused := p.intervals(t)
	stopped := 0
	for _, l := range p.lanes {
		stopped += l.worker.FailStopped()
	}
	p.counting.Lock()
	defer p.counting.Unlock()
	total := 0
	names := slices.Sorted(maps.Keys(p.counts))
	for i, name := range names {
		total += p.counts[name]
		names[i] = fmt.Sprintf("%d %s", p.counts[name], name)
	}
	return fmt.Sprintf("seed %d: %d faults (%s); %d terms (up to %d of a group in a second), %d runners, %d writes (at least %d a group), %d late writes refused by the server, %d processes ended because a runner did not return, %d pairs of runners at the same time",
		p.options.Seed, total, strings.Join(names, ", "), terms, p.history.Busiest(), len(intervals), writes, fewest, refused, stopped, len(Overlaps(intervals)))
}
