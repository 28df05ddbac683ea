// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycletest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	featuresclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/features/v1alpha1"
)

const (
	defaultPatience  = 2 * time.Minute
	defaultFollowing = 45 * time.Second
	// interval is how long after a check it is made again; the intervals grow to a tenth of a second.
	interval, maxInterval = 20 * time.Millisecond, 100 * time.Millisecond
)

// way is how a value is wished for.
type way string

const (
	byDesired way = "spec.desired"
	byFlags   way = "flags"
)

// runner is one call of Run.
type runner struct {
	t          testing.TB
	server     Server
	cases      []Case
	options    Options
	exclusions []Exclusion
	random     *rand.Rand
	clients    clients
	documents  map[string]string
	v2         struct{ read, compared string }
	// where says what is being done, for messages.
	where string
	// flags are the gates of the server that runs, or ran last, and dynamic the features that follow spec.desired.
	flags   map[string]bool
	dynamic map[string]bool
	// off is what there is before any feature was on, and on what there is when those are on that a way can turn on.
	off   snapshot
	on    map[way]snapshot
	parts parts
	tally tally
}

type clients struct {
	config    *rest.Config
	features  featuresclient.FeatureInterface
	dynamic   dynamic.Interface
	discovery *discovery.DiscoveryClient
}

// Run turns the features of all cases on and off, and ends the test at once if something is not as it has to be.
func Run(t testing.TB, server Server, cases []Case, options Options) {
	t.Helper()
	if options.Patience == 0 {
		options.Patience = defaultPatience
	}
	if options.Following == 0 {
		options.Following = defaultFollowing
	}
	r := &runner{
		t: t, server: server, cases: cases, options: options, exclusions: slices.Concat(always(), options.Exclude),
		random: rand.New(rand.NewPCG(options.Seed, 0)), documents: map[string]string{}, where: "at the beginning",
		dynamic: map[string]bool{}, on: map[way]snapshot{}, parts: parts{}, tally: tally{met: map[string]int{}},
	}
	t.Logf("%d features, %d rounds with kills, seed %d", len(cases), options.Rounds, options.Seed)
	r.begin()
	ways := []way{byFlags}
	if len(r.dynamic) > 0 {
		ways = []way{byDesired, byFlags}
	}
	for i, w := range ways {
		r.where = "undisturbed, by " + string(w)
		r.half(w, how{use: true, restart: i == 0})
	}
	for round := range options.Rounds {
		for _, use := range []bool{true, false} {
			w := ways[r.random.IntN(len(ways))]
			r.where = fmt.Sprintf("round %d of seed %d, by %s", round, options.Seed, w)
			r.half(w, how{use: use, kill: true})
		}
	}
	r.tally.report(t)
}

// begin turns all features off, and sees what there is then.
func (r *runner) begin() {
	r.t.Helper()
	r.start(values(r.cases, false))
	r.settle(r.cases, false)
	for _, feature := range r.features() {
		if feature.Status.Dynamic {
			r.dynamic[feature.Name] = true
		}
	}
	for _, c := range r.cases {
		r.call(c.Prepare)
	}
	r.off = r.steady()
}

// how says what happens in a half: whether the features are used, and whether the server is restarted when they are on and off, or
// killed while they are turned.
type how struct{ use, restart, kill bool }

// half turns the features on and off once.
func (r *runner) half(w way, h how) {
	r.t.Helper()
	r.turn(true, w, how{kill: h.kill})
	if _, known := r.on[w]; !known {
		r.on[w] = r.steady()
	}
	r.compare("published while the features are on", r.on[w], onlyPublished)
	if h.use {
		for _, c := range r.turned(w) {
			r.call(c.Use)
		}
	}
	if h.restart {
		r.start(r.flags)
		r.settle(r.turned(w), true)
	}
	r.turn(false, w, h)
	r.checkOff()
	if h.restart {
		r.start(r.flags)
		r.settle(r.cases, false)
		r.checkOff()
	}
	if w == byDesired {
		r.desire("")
		r.settle(r.cases, false)
	}
}

func (r *runner) checkOff() {
	r.t.Helper()
	r.compare("stored and published after the features were turned off, against before they ever were on", r.off, everything)
	for _, c := range r.cases {
		r.call(c.CheckOff)
	}
}

// turned returns the cases whose features can be turned in a way. The others stay off.
func (r *runner) turned(w way) []Case {
	if w == byFlags {
		return r.cases
	}
	return slices.DeleteFunc(slices.Clone(r.cases), func(c Case) bool { return !r.dynamic[c.Feature] })
}

func (r *runner) call(f func(testing.TB, *rest.Config)) {
	r.t.Helper()
	if f == nil {
		return
	}
	f(r.t, rest.CopyConfig(r.clients.config))
	if r.t.Failed() {
		r.fatalf("a function of a case failed")
	}
}

// values gives all features one value.
func values(cases []Case, on bool) map[string]bool {
	out := map[string]bool{}
	for _, c := range cases {
		out[c.Feature] = on
	}
	return out
}

func (r *runner) start(flags map[string]bool) {
	r.t.Helper()
	r.flags = flags
	r.server.Start(r.t, maps.Clone(flags))
	config := rest.CopyConfig(r.server.Config())
	config.QPS = -1
	c := clients{config: config}
	features, err := featuresclient.NewForConfig(config)
	if err == nil {
		c.features = features.Features(r.options.Namespace)
		c.dynamic, err = dynamic.NewForConfig(config)
	}
	if err == nil {
		c.discovery, err = discovery.NewDiscoveryClientForConfig(config)
	}
	if err != nil {
		r.fatalf("make clients of the API: %v", err)
	}
	r.clients = c
}

func (r *runner) fatalf(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s: %s", r.where, fmt.Sprintf(format, args...))
}

// poll repeats a check until it succeeds, and returns what it said last.
func (r *runner) poll(patience time.Duration, check func(ctx context.Context) error) error {
	wait := interval
	var last error
	for deadline := time.Now().Add(patience); ; wait = min(2*wait, maxInterval) {
		ctx, cancel := context.WithDeadline(r.t.Context(), deadline)
		err := check(ctx)
		if cancel(); err == nil {
			return nil
		}
		// That there was no more time says less than what was wrong before.
		over := time.Now().After(deadline)
		if last == nil || !over {
			last = err
		}
		if over || !r.pause(wait) {
			return last
		}
	}
}

// pause waits, and tells whether the test goes on.
func (r *runner) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.t.Context().Done():
		return false
	}
}
