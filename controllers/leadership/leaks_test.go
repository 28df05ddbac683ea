// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	"github.com/kube-annex/annex/controllers/leadership"
)

// paths is a mux that knows what is on it.
type paths struct {
	mu sync.Mutex
	on map[string]http.Handler
}

func (p *paths) Handle(path string, handler http.Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on == nil {
		p.on = map[string]http.Handler{}
	}
	p.on[path] = handler
}

func (p *paths) Unregister(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.on, path)
}

func (p *paths) all() map[string]http.Handler {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.on)
}

func TestCyclesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := startChild(t, "cycle", "-annex.lease", s.lease.Name, "-annex.cycles", strconv.Itoa(*cycles))
	<-c.done
	for _, problem := range append(c.said("problem"), c.said("panic")...) {
		t.Error(problem)
	}
	if c.err != nil {
		t.Error(c.err)
	}
	if done := c.said("done"); len(done) != 1 {
		t.Errorf("the child said:\n%s", strings.Join(c.said(""), "\n"))
	}
	t.Log(c.said("before"), c.said("after"))
}

// footprint is what cycles might add to.
type footprint struct {
	goroutines, labelled, checks, paths, series int
	heap                                        uint64
}

// cycleAsChild begins and ends terms that use all a term has, and compares what there is before and after.
func cycleAsChild(config *rest.Config) error {
	registry, mux := metrics.NewKubeRegistry(), &paths{}
	o := leadership.NewOptions()
	o.Client, o.Timings, o.Host, o.Metrics = config, unhurried, "child", leadership.NewMetrics()
	o.DetectLeaks = true
	if err := o.Metrics.Register(registry.Register); err != nil {
		return err
	}
	switches, works, ended := make(chan bool), make(chan struct{}), make(chan struct{})
	c, err := leadership.New(o, leadership.Group{
		Name: "cycle", Lease: types.NamespacedName{Namespace: "default", Name: *childLease},
		New: func(term *leadership.Term) ([]leadership.Runnable, error) { return cycleRunners(term, works, ended) },
		When: func(ctx context.Context, report func(bool)) error {
			for {
				select {
				case on := <-switches:
					report(on)
				case <-ctx.Done():
					return nil
				}
			}
		},
	})
	if err != nil {
		return err
	}
	c.UseMux(mux)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	finished := make(chan error, 1)
	go func() { finished <- c.Run(ctx) }()

	cycle := func() error {
		for _, step := range []func() error{
			func() error {
				return inTime("switch on", func(d <-chan time.Time) bool { return sendOr(switches, true, d) })
			},
			func() error { return inTime("begin", func(d <-chan time.Time) bool { return receiveOr(works, d) }) },
			func() error {
				return inTime("switch off", func(d <-chan time.Time) bool { return sendOr(switches, false, d) })
			},
			func() error { return inTime("end", func(d <-chan time.Time) bool { return receiveOr(ended, d) }) },
		} {
			if err := step(); err != nil {
				return fmt.Errorf("%w; %v", err, c.Statuses())
			}
		}
		return nil
	}
	const warmUp = 10
	for range warmUp {
		if err := cycle(); err != nil {
			return err
		}
	}
	before, err := settle(c, registry, mux, nil)
	if err != nil {
		return err
	}
	say(fmt.Sprintf("before: %+v", before))
	began := time.Now()
	for range *cycles {
		if err := cycle(); err != nil {
			return err
		}
	}
	took := time.Since(began)
	after, err := settle(c, registry, mux, &before)
	if err != nil {
		return err
	}
	say(fmt.Sprintf("after %d terms in %s: %+v", *cycles, took.Round(time.Millisecond), after))
	const slack = 2 << 20
	if after.goroutines > before.goroutines || after.labelled > 0 || after.checks != before.checks || after.paths != 0 || after.series != before.series {
		say("problem: something is left over")
	}
	if after.heap > before.heap+slack {
		say("problem: the heap has grown")
	}
	stop()
	if err := <-finished; err != nil {
		return err
	}
	say("done")
	return nil
}

func inTime(what string, f func(<-chan time.Time) bool) error {
	timer := time.NewTimer(soon)
	defer timer.Stop()
	if !f(timer.C) {
		return fmt.Errorf("a term does not %s", what)
	}
	return nil
}

func sendOr(c chan<- bool, value bool, d <-chan time.Time) bool {
	select {
	case c <- value:
		return true
	case <-d:
		return false
	}
}

func receiveOr(c <-chan struct{}, d <-chan time.Time) bool {
	select {
	case <-c:
		return true
	case <-d:
		return false
	}
}

// cycleRunners use informers with handlers, a health check and a path.
func cycleRunners(term *leadership.Term, works, ended chan<- struct{}) ([]leadership.Runnable, error) {
	own, err := kubernetes.NewForConfig(term.Client())
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(own, 0)
	namespaces := factory.Core().V1().Namespaces().Informer()
	term.OnEnd(func() { ended <- struct{}{} })
	return []leadership.Runnable{
		leadership.Informers("informers", factory),
		{Name: "worker", Run: func(ctx context.Context) error {
			term.AddHealthCheck("cache", func(*http.Request) error {
				if !namespaces.HasSynced() {
					return fmt.Errorf("the informer has not synced")
				}
				return nil
			})
			term.Handle("/debug/cycle", http.NotFoundHandler())
			handler, err := namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{})
			if err != nil {
				return err
			}
			defer func() { _ = namespaces.RemoveEventHandler(handler) }()
			if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
				return nil
			}
			works <- struct{}{}
			<-ctx.Done()
			return nil
		}},
	}, nil
}

// settle measures when what needs a moment to end has ended, or that is given up.
func settle(c *leadership.Elector, registry metrics.KubeRegistry, mux *paths, want *footprint) (f footprint, err error) {
	deadline := time.Now().Add(soon)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	// The leak detector and the watch of the Lease that has just ended are done after a second.
	quiet := time.Now().Add(2 * time.Second)
	for time.Now().Before(deadline) {
		<-tick.C
		families, err := registry.Gather()
		if err != nil {
			return f, err
		}
		f = footprint{goroutines: runtime.NumGoroutine(), paths: len(mux.all())}
		for _, family := range families {
			f.series += len(family.GetMetric())
		}
		if c.Check(nil) != nil {
			f.checks++
		}
		if f.labelled, err = labelledGoroutines(`"leadership_group"`, `"leadership_call"`); err != nil {
			return f, err
		}
		var memory runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&memory)
		f.heap = memory.HeapAlloc
		if time.Now().After(quiet) && f.labelled == 0 && (want == nil || f.goroutines <= want.goroutines) {
			break
		}
	}
	return f, nil
}

func TestALeakedGoroutineIsCountedAndNamed(t *testing.T) {
	t.Parallel()
	for name, leaks := range map[string]bool{"leaking": true, "connecting only": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			over, listed := make(chan struct{}), make(chan struct{})
			defer close(over)
			_, server := newProxy(t) // so that the term dials a connection of its own, which outlives it
			a := s.candidate("a", as(&rest.Config{Host: server.URL, QPS: -1}),
				working(func(ctx context.Context, term *leadership.Term) error {
					own, err := kubernetes.NewForConfig(term.Client())
					if err != nil {
						return err
					}
					var lists sync.WaitGroup
					for range 4 { // at a time, so that some need another connection
						lists.Go(func() {
							if _, err := own.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err != nil {
								t.Error(err)
							}
						})
					}
					lists.Wait()
					close(listed)
					if leaks {
						go func() { _ = ignoresItsContext(over) }()
					}
					<-ctx.Done()
					return nil
				}),
				func(p *plan) {
					p.group.When = func(ctx context.Context, report func(bool)) error {
						report(true)
						s.await(soon, "start", "a", 1)
						<-listed
						report(false)
						<-ctx.Done()
						return nil
					}
				})
			s.await(soon, "stop", "a", 1)
			if !leaks {
				throughout(t, 7*time.Second, "nothing is reported", func() (bool, any) {
					return a.metric("leader_election_leaked_goroutines") == 0 && !strings.Contains(a.log.String(), "left goroutines behind"), a.log
				})
				return
			}
			a.awaitMetric(soon, 1, "leader_election_leaked_goroutines")
			eventually(t, soon, "the log names the goroutine", func() (bool, any) {
				log := a.log.String()
				return strings.Contains(log, "left goroutines behind") && strings.Contains(log, "ignoresItsContext"), log
			})
		})
	}
}
