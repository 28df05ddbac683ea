// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/validate"
)

const (
	// shownViolations is how many are printed.
	shownViolations = 5
	// growth is how many more goroutines are no leak: pools and caches fill up.
	growth = 100
	// starting is how long a server may go on to start things once it is ready; it is done when it has started none for quiet.
	starting = 30 * time.Second
	quiet    = 2 * time.Second
)

// Verdict fails the test with what was violated. The load is stopped, if it was not.
func (l *Load) Verdict(t testing.TB) {
	t.Helper()
	l.Stop(t)
	if found := l.Violations(); len(found) > 0 {
		t.Errorf("%d violations, the first of which:\n%s", len(found), strings.Join(found[:min(shownViolations, len(found))], "\n"))
	}
	if unknown, all := l.unanswered(); unknown*2 > all {
		t.Errorf("%d of %d writes were not answered; that proves too little", unknown, all)
	}
	for _, grown := range l.grown(t) {
		t.Error(grown)
	}
	t.Log(l.Summary())
}

// Violations are all that must not have happened. The load was stopped.
func (l *Load) Violations() []string { return l.checked() }

func (l *Load) check() []string { return slices.Concat(l.broken, l.record().Violations()) }

// unanswered counts the writes that may or may not have been done, among all.
func (l *Load) unanswered() (of, all int) {
	for _, o := range l.record().Operations {
		if o.Verb.Writes() {
			all++
			if o.Outcome == validate.Unknown {
				of++
			}
		}
	}
	return of, all
}

// Goroutines returns how many goroutines a server has, from its metrics.
func Goroutines(config *rest.Config) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		own := rest.CopyConfig(config)
		own.QPS, own.Timeout = -1, 10*time.Second
		own.GroupVersion, own.NegotiatedSerializer = nil, clientscheme.Codecs.WithoutConversion()
		client, err := rest.UnversionedRESTClientFor(own)
		if err != nil {
			return 0, err
		}
		content, err := client.Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(content)) {
			if number, ok := strings.CutPrefix(strings.TrimSpace(line), "go_goroutines "); ok {
				return strconv.Atoi(number)
			}
		}
		return 0, fmt.Errorf("the metrics of %s have no go_goroutines", config.Host)
	}
}

// settled counts goroutines when they have become no more for a while: a server is ready before all of its controllers work.
func (l *Load) settled(t testing.TB) map[string]int {
	t.Helper()
	counts := l.countGoroutines(t)
	deadline, since := time.Now().Add(starting), time.Now()
	for len(counts) > 0 && time.Since(since) < quiet && time.Now().Before(deadline) {
		poll.Pause(t.Context(), quiet/10)
		for name, number := range l.countGoroutines(t) {
			if number > counts[name] {
				counts[name], since = number, time.Now()
			}
		}
	}
	return counts
}

func (l *Load) countGoroutines(t testing.TB) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for name, count := range l.Goroutines {
		number, err := count(t.Context())
		if err != nil {
			t.Fatalf("counting the goroutines of %s: %v", name, err)
		}
		counts[name] = number
	}
	return counts
}

// grown names the servers that have more goroutines than at first, and keep them.
func (l *Load) grown(t testing.TB) (grown []string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(l.Goroutines)) {
		err := poll.Until(t.Context(), l.settle, func(ctx context.Context) error {
			number, err := l.Goroutines[name](ctx)
			if err != nil {
				return err
			}
			return poll.Want(number <= l.before[name]+growth, fmt.Sprintf("%d goroutines", number))
		})
		if err != nil {
			grown = append(grown, fmt.Sprintf("%s has more than %d goroutines: %v", name, l.before[name]+growth, err))
		}
	}
	return grown
}
