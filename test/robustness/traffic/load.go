// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/validate"
)

const (
	// patience is how long the end of a load may take.
	patience = time.Minute
	// pollEvery is how often is looked.
	pollEvery = 20 * time.Millisecond
)

// Options say what clients do, and to whom.
type Options struct {
	Seed uint64
	// Clients (8), Keys (8) and Watchers (4) are numbers; 0 is what is in brackets here and below, and less than 0 is none.
	Clients, Keys, Watchers int
	// Configs reach the servers, with all rights. Clients are spread over them.
	Configs []*rest.Config
	Objects Objects
	// RequestTimeout (10 s) is how long a client waits for an answer, and Pause (5 ms) what it rests between requests, on average.
	RequestTimeout, Pause time.Duration
	// WatchTimeout has watches end after at most so long; without it the server decides.
	WatchTimeout time.Duration
	// Padding makes objects larger by so many bytes.
	Padding int
	// Goroutines tell by name how many goroutines a server has, such as what Goroutines returns. They must not become more.
	Goroutines map[string]func(context.Context) (int, error)
	// Again is how people run the test again with this seed.
	Again string
}

// Load is clients and watchers at work.
type Load struct {
	Options
	began   time.Time
	names   []string
	known   map[string]bool
	servers []*server
	before  map[string]int
	// settle is how long servers may take to end what they did for clients that have gone.
	settle  time.Duration
	checked func() []string

	stop     chan struct{}
	stopOnce sync.Once
	closed   sync.Once
	cancel   context.CancelFunc
	working  sync.WaitGroup
	watching sync.WaitGroup
	endWatch context.CancelFunc
	mu       sync.Mutex
	clients  []*client
	watchers []*watcher
	writes   int
	final    []validate.Item
	ended    int64
	broken   []string
}

// server is a way to one, of a client's own.
type server struct {
	name string
	rest *rest.RESTClient
	http *http.Client
}

// Start has clients and watchers work until Stop, or the end of the test.
func Start(t testing.TB, options Options) *Load {
	t.Helper()
	l := &Load{Options: options.withDefaults(), began: time.Now(), known: map[string]bool{}, stop: make(chan struct{}), settle: 90 * time.Second}
	l.checked = sync.OnceValue(l.check)
	for i := range l.Keys {
		name := fmt.Sprintf("load-%x-%d%s", l.Seed, i, l.Objects.Suffix)
		l.names, l.known[name] = append(l.names, name), true
	}
	l.before = l.settled(t)
	ctx, cancel := context.WithCancel(context.Background())
	watching, endWatch := context.WithCancel(ctx)
	l.cancel, l.endWatch = cancel, endWatch
	t.Cleanup(func() {
		l.halt()
		if t.Failed() {
			t.Logf("seed %d; again with: %s", l.Seed, l.Again)
		}
	})
	for i := range l.Clients {
		c := &client{load: l, number: i, random: rand.New(rand.NewPCG(l.Seed, uint64(i))), servers: l.connect(t), at: i, last: map[string]validate.Item{}}
		l.clients = append(l.clients, c)
	}
	for i := range l.Watchers {
		l.watchers = append(l.watchers, &watcher{load: l, number: i, servers: l.connect(t), at: i})
	}
	for _, w := range l.watchers {
		random := rand.New(rand.NewPCG(l.Seed, uint64(1000+w.number)))
		l.watching.Go(func() { w.run(watching, random) })
	}
	for _, c := range l.clients {
		l.working.Go(func() { c.run(ctx, l.stop) })
	}
	return l
}

func (o Options) withDefaults() Options {
	for number, value := range map[*int]int{&o.Clients: 8, &o.Keys: 8, &o.Watchers: 4} {
		if *number == 0 {
			*number = value
		}
		*number = max(0, *number)
	}
	for length, value := range map[*time.Duration]time.Duration{&o.RequestTimeout: 10 * time.Second, &o.Pause: 5 * time.Millisecond} {
		if *length == 0 {
			*length = value
		}
	}
	if o.Again == "" {
		o.Again = fmt.Sprintf("-seed=%d", o.Seed)
	}
	return o
}

// connect makes ways to all servers, with connections of their own.
func (l *Load) connect(t testing.TB) (servers []*server) {
	t.Helper()
	for _, config := range l.Configs {
		own := rest.CopyConfig(config)
		own.QPS, own.WarningHandler, own.Timeout = -1, rest.NoWarnings{}, 0
		own.APIPath, own.GroupVersion = "/", nil
		own.NegotiatedSerializer = clientscheme.Codecs.WithoutConversion()
		if own.Dial == nil {
			// Transports of equal configurations would be one.
			own.Dial = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
		}
		via, err := rest.HTTPClientFor(own)
		if err != nil {
			t.Fatal(err)
		}
		made, err := rest.UnversionedRESTClientForConfigAndClient(own, via)
		if err != nil {
			t.Fatal(err)
		}
		s := &server{name: config.Host, rest: made, http: via}
		servers = append(servers, s)
		l.servers = append(l.servers, s)
	}
	return servers
}

func (l *Load) now() int64 { return int64(time.Since(l.began)) }

// Writes is how many writes were acknowledged so far.
func (l *Load) Writes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes
}

// WaitFor waits until so many more writes were acknowledged. However slow they are, there must be one now and then.
func (l *Load) WaitFor(t testing.TB, writes int) {
	t.Helper()
	for before, want := l.Writes(), l.Writes()+writes; before < want; before = l.Writes() {
		if stuck := l.until(patience, func() string {
			if l.writes == before {
				return fmt.Sprintf("no write was acknowledged for %s; %d more are wanted", patience, want-before)
			}
			return ""
		}); stuck != "" {
			t.Fatalf("%s; %s", stuck, l.Summary())
		}
	}
}

// Recovered waits until every client has since then written and read with success, and every watcher has seen what was written. It
// returns how long that took.
func (l *Load) Recovered(t testing.TB, within time.Duration) time.Duration {
	t.Helper()
	began, since := time.Now(), l.now()
	newest := int64(0)
	stuck := l.until(within, func() string {
		for _, c := range l.clients {
			if c.wrote <= since || c.read <= since {
				return fmt.Sprintf("client %d has not both written and read; the last error was: %v", c.number, c.lastErr)
			}
		}
		if newest == 0 {
			for _, c := range l.clients {
				newest = max(newest, c.newest)
			}
		}
		return l.behind(newest)
	})
	if stuck != "" {
		t.Fatalf("within %s not all recovered: %s; %s", within, stuck, l.Summary())
	}
	return time.Since(began)
}

// behind names a watcher that has not reached a version. The lock is held.
func (l *Load) behind(version int64) string {
	for _, w := range l.watchers {
		if len(w.spells) == 0 {
			return fmt.Sprintf("watcher %d has not listed; the last error was: %v", w.number, w.lastErr)
		}
		if reached := w.spells[len(w.spells)-1].Reached; reached < version {
			return fmt.Sprintf("watcher %d has reached %d, and not %d; the last error was: %v", w.number, reached, version, w.lastErr)
		}
	}
	return ""
}

// until calls look, under the lock, until it finds no problem, and returns the last one.
func (l *Load) until(within time.Duration, look func() string) (problem string) {
	_ = poll.Until(context.Background(), within, func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		problem = look()
		return poll.Want(problem == "", problem)
	})
	return problem
}

// Stop has clients end what they are at, lists what there is, and ends the watchers when they have seen as much.
func (l *Load) Stop(t testing.TB) {
	t.Helper()
	l.stopOnce.Do(func() { close(l.stop) })
	l.working.Wait()
	l.closed.Do(func() {
		marker, err := l.end(t.Context())
		if err == nil {
			if stuck := l.until(patience, func() string { return l.behind(marker) }); stuck != "" {
				err = fmt.Errorf("after %s %s", patience, stuck)
			}
		}
		if err != nil {
			l.broken = append(l.broken, fmt.Sprintf("at the end: %v", err))
		}
	})
	l.halt()
}

// end lists what there is, and then writes something, which watchers must come to see.
func (l *Load) end(ctx context.Context) (marker int64, err error) {
	c := &client{load: l, number: l.Clients + l.Watchers, servers: l.servers[:len(l.Configs)], last: map[string]validate.Item{}}
	listed, err := c.insist(ctx, func(int) validate.Operation { return validate.Operation{Verb: validate.List} })
	if err != nil {
		return 0, err
	}
	written, err := c.insist(ctx, func(attempt int) validate.Operation {
		name := fmt.Sprintf("load-%x-end-%d%s", l.Seed, attempt, l.Objects.Suffix)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.known[name] = true
		return validate.Operation{Verb: validate.Create, Name: name, Value: name}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.final, l.ended = listed.Items, listed.Listed
	l.clients = append(l.clients, c)
	return written.Shown.Version, err
}

// insist makes requests until one goes well.
func (c *client) insist(ctx context.Context, next func(attempt int) validate.Operation) (validate.Operation, error) {
	deadline := time.Now().Add(patience)
	for attempt := 0; ; attempt++ {
		o := next(attempt)
		o.Client = c.number
		c.send(ctx, &o)
		c.operations = append(c.operations, o)
		if o.Outcome == validate.Done {
			return o, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return o, fmt.Errorf("%s for %s: %w", o.Verb, patience, o.Err)
		}
		c.at++
		poll.Pause(ctx, 5*pollEvery)
	}
}

// halt ends everything at once.
func (l *Load) halt() {
	l.stopOnce.Do(func() { close(l.stop) })
	l.endWatch()
	l.cancel()
	l.working.Wait()
	l.watching.Wait()
	for _, s := range l.servers {
		utilnet.CloseIdleConnectionsFor(s.http.Transport)
	}
}

// record is all that is known.
func (l *Load) record() validate.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := validate.Record{Final: slices.Clone(l.final), Ended: l.ended}
	for _, c := range l.clients {
		r.Operations = append(r.Operations, c.operations...)
	}
	for _, w := range l.watchers {
		r.Operations = append(r.Operations, w.operations...)
		r.Watchers = append(r.Watchers, slices.Clone(w.spells))
	}
	return r
}

// Failed are the requests that got no answer of use, in order.
func (l *Load) Failed() (failed []string) {
	operations := slices.DeleteFunc(l.record().Operations, func(o validate.Operation) bool { return !o.Failed() })
	slices.SortFunc(operations, func(a, b validate.Operation) int { return int(a.Call - b.Call) })
	for _, o := range operations {
		failed = append(failed, o.String())
	}
	return failed
}

// Summary says what was done and seen.
func (l *Load) Summary() string {
	r := l.record()
	counts := map[string]int{}
	for _, o := range r.Operations {
		counts[string(o.Verb)+" "+string(o.Outcome)]++
		if o.Failed() {
			counts["failed"]++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var seen watcher
	for _, w := range l.watchers {
		seen.lists += w.lists
		seen.watches += w.watches
		seen.events += w.events
		seen.gone += w.gone
		seen.ended += w.ended
		seen.tooNew += w.tooNew
	}
	return fmt.Sprintf("seed %d: %d clients on %d keys for %s: %d requests, %d writes acknowledged, %d failed; %d watchers: %d events, %d lists, "+
		"%d watches of which %d ended, %d told that the version is gone, %d that it is too large",
		l.Seed, l.Clients, l.Keys, time.Since(l.began).Round(time.Second), len(r.Operations), l.writes, counts["failed"],
		len(l.watchers), seen.events, seen.lists, seen.watches, seen.ended, seen.gone, seen.tooNew)
}
