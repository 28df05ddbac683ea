// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/fencing"
)

// newTestStatus is the status of a follower, by a clock that a test sets.
func newTestStatus(now *time.Duration) *status {
	s := newStatus(Clock{Elapsed: func() time.Duration { return *now }, Now: time.Now}, NewOptions().Timings)
	s.setFollowing()
	return s
}

var (
	errAway    = errors.New("away")
	errNoRight = apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "lease", errAway)
)

// TestAFailureIsForgottenWhenItIsOver keeps a failed write while the Lease is free, since reading it does not show that it can be written.
func TestAFailureIsForgottenWhenItIsOver(t *testing.T) {
	t.Parallel()
	now := 100 * time.Second
	failedRead, failedWrite := (*status).readFailed, (*status).writeFailed
	for name, tc := range map[string]struct {
		failed      func(*status, error) bool
		freeAt      time.Duration
		wrong, want error
	}{
		"nothing, the Lease is free":          {freeAt: now - 1},
		"nothing, the holder is wrong":        {freeAt: now - 1, wrong: errDuplicate, want: errDuplicate},
		"a read, the Lease is free":           {failed: failedRead, freeAt: now - 1},
		"a read, the Lease is held":           {failed: failedRead, freeAt: now + 1},
		"a read, the holder is wrong":         {failed: failedRead, freeAt: now - 1, wrong: errDuplicate, want: errDuplicate},
		"a write, the Lease is free":          {failed: failedWrite, freeAt: now - 1, want: errAway},
		"a write, the Lease has just expired": {failed: failedWrite, freeAt: now, want: errAway},
		"a write, the Lease is held":          {failed: failedWrite, freeAt: now + 1},
		"a write, the holder is wrong":        {failed: failedWrite, freeAt: now - 1, wrong: errDuplicate, want: errDuplicate},
	} {
		s := newTestStatus(&now)
		if tc.failed != nil {
			tc.failed(s, errAway)
		}
		s.observe("a", tc.freeAt, tc.wrong)
		if got, _, _ := s.snapshot("g"); !errors.Is(got.Err, tc.want) || (got.Err == nil) != (tc.want == nil) || got.Holder != "a" {
			t.Errorf("%s: held by %q with the error %v, want %v", name, got.Holder, got.Err, tc.want)
		}
	}
}

func TestAFailureIsNewOnceInARow(t *testing.T) {
	t.Parallel()
	now := time.Duration(0)
	s := newTestStatus(&now)
	for i, step := range []struct {
		record func(error) bool
		isNew  bool
	}{
		{s.writeFailed, true},
		{s.writeFailed, false},
		{s.readFailed, true},
		{s.readFailed, false},
		{s.writeFailed, true},
		{func(error) bool { s.observe("a", time.Second, nil); return s.writeFailed(errAway) }, true},
		{func(error) bool { s.setFollowing(); return s.readFailed(errAway) }, true},
	} {
		if got := step.record(errAway); got != step.isNew {
			t.Errorf("step %d: the failure is new: %t, want %t", i, got, step.isNew)
		}
	}
}

func TestWhenAGroupIsStuck(t *testing.T) {
	t.Parallel()
	const began = 100 * time.Second
	timings := NewOptions().Timings
	term := &Term{fence: fencing.Term{Holder: "a"}}
	starting := func(s *status, w *work) { s.setStarting(term, w, nil) }
	stopping := func(s *status, w *work) { s.setStarting(term, w, nil); s.setLeading(); s.setStopping() }
	free := func(s *status, _ *work) { s.observe("", began, nil) }
	unwritable := func(s *status, _ *work) { s.observe("", began, nil); s.writeFailed(errAway) }
	unreadable := func(s *status, _ *work) { s.readFailed(errAway) }
	for name, tc := range map[string]struct {
		enter      func(*status, *work)
		unfinished []string
		// limit is how long the role may last.
		limit  time.Duration
		reason string
		// says is part of what the page says, and not what it does not say.
		says, not string
	}{
		"starting":                      {enter: starting, limit: timings.LeaseDuration, reason: stuckStarting, says: "for 15s"},
		"stopping":                      {enter: stopping, unfinished: []string{"worker"}, limit: timings.StopTimeout / 2, reason: stuckStopping, says: "for 5s: worker", not: "released"},
		"stopping, all have returned":   {enter: stopping, limit: timings.StopTimeout / 2, reason: stuckStopping, says: "not been released for 5s", not: "returned"},
		"the Lease is free":             {enter: free, limit: 2 * timings.LeaseDuration, reason: stuckAcquiring, says: "for 30s", not: "away"},
		"the Lease cannot be written":   {enter: unwritable, limit: 2 * timings.LeaseDuration, reason: stuckAcquiring, says: ": away"},
		"the Lease could never be read": {enter: unreadable, limit: 2 * timings.LeaseDuration, reason: stuckAcquiring, says: ": away"},
	} {
		now := began
		s, w := newTestStatus(&now), &work{}
		for _, name := range tc.unfinished {
			w.add(name)
		}
		tc.enter(s, w)
		now = began + tc.limit
		if status, _, reason := s.snapshot("g"); reason != "" || status.Stuck != "" || status.Since != tc.limit || strings.Contains(status.String(), "stuck") {
			t.Errorf("%s: after %s it is stuck: %s: %s", name, tc.limit, reason, status)
		}
		now++
		status, _, reason := s.snapshot("g")
		if reason != tc.reason || status.Since != tc.limit+1 {
			t.Errorf("%s: after %s it is stuck because of %q, want %q", name, status.Since, reason, tc.reason)
		}
		if line := status.String(); !strings.Contains(line, status.Stuck) || !strings.Contains(status.Stuck, tc.says) || tc.not != "" && strings.Contains(status.Stuck, tc.not) {
			t.Errorf("%s: the page says %s", name, line)
		}
	}
}

func TestWhichGroupsAreHealthy(t *testing.T) {
	t.Parallel()
	long := 3 * DefaultLeaseDuration
	for name, tc := range map[string]struct {
		enter   func(*status)
		lasting time.Duration
		want    []string
	}{
		"a follower":                            {enter: func(*status) {}},
		"a follower of a copy of itself":        {enter: func(s *status) { s.observe("a", 0, errDuplicate) }, want: []string{errDuplicate.Error()}},
		"a follower without a right":            {enter: func(s *status) { s.readFailed(errNoRight) }, want: []string{errNoRight.Error(), "ns/lease"}},
		"a follower whose server is away":       {enter: func(s *status) { s.readFailed(errAway) }},
		"a follower whose server is long away":  {enter: func(s *status) { s.readFailed(errAway) }, lasting: long, want: []string{"away"}},
		"after a term that failed for a right":  {enter: func(s *status) { s.backoff(fmt.Errorf("build: %w", errNoRight)) }, lasting: long},
		"after a term that failed":              {enter: func(s *status) { s.backoff(errAway) }, lasting: long},
		"after a term with a copy":              {enter: func(s *status) { s.backoff(errDuplicate) }, lasting: long},
		"off, after a failure to read the same": {enter: func(s *status) { s.readFailed(errNoRight); s.setOff() }, lasting: long},
		"a leader whose checks fail": {enter: func(s *status) {
			term := &Term{checks: map[string]func(*http.Request) error{}}
			for name, err := range map[string]error{"good": nil, "bad": errAway, "worse": errNoRight} {
				term.AddHealthCheck(name, func(*http.Request) error { return err })
			}
			s.setStarting(term, &work{}, nil)
		}, want: []string{"bad: away", "worse: "}},
	} {
		now := time.Duration(0)
		g := &group{Group: Group{Name: "g", Lease: types.NamespacedName{Namespace: "ns", Name: "lease"}}, status: newTestStatus(&now)}
		tc.enter(g.status)
		now += tc.lasting
		err := g.check(nil)
		if (err == nil) != (tc.want == nil) {
			t.Errorf("%s: got %v", name, err)
		}
		for _, part := range tc.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want %q in it", name, err, part)
			}
		}
	}
}

func TestATermWithoutAMuxServesNothing(t *testing.T) {
	t.Parallel()
	term := &Term{}
	term.Handle("/debug", http.NotFoundHandler())
	if len(term.paths) > 0 {
		t.Errorf("paths to be taken back from no mux: %q", term.paths)
	}
}

func TestTimingsJustWithinTheirLimits(t *testing.T) {
	t.Parallel()
	const s = time.Second
	good := Timings{LeaseDuration: 9 * s, RenewDeadline: 5 * s, RetryPeriod: 2 * s, StopTimeout: 1}
	for name, tc := range map[string]struct {
		change func(*Timings)
		want   int
	}{
		"good":                                   {func(*Timings) {}, 0},
		"the shortest duration":                  {func(t *Timings) { t.LeaseDuration, t.RenewDeadline, t.RetryPeriod = s, s/2, 1 }, 0},
		"a shorter one, in no whole seconds":     {func(t *Timings) { t.LeaseDuration, t.RenewDeadline, t.RetryPeriod = s-1, s/2, 1 }, 2},
		"the shortest retry period":              {func(t *Timings) { t.RetryPeriod = 1 }, 0},
		"no retry period":                        {func(t *Timings) { t.RetryPeriod = 0 }, 1},
		"the latest deadline":                    {func(t *Timings) { t.RenewDeadline = 8100*time.Millisecond - 1 }, 0},
		"a later deadline":                       {func(t *Timings) { t.RenewDeadline = 8100 * time.Millisecond }, 1},
		"a deadline after a second attempt":      {func(t *Timings) { t.RenewDeadline, t.RetryPeriod = 4800*time.Millisecond+1, 4*s }, 0},
		"a deadline with the second attempt":     {func(t *Timings) { t.RenewDeadline, t.RetryPeriod = 4800*time.Millisecond, 4*s }, 1},
		"a deadline just after the next renewal": {func(t *Timings) { t.RenewDeadline = 3*s + 1 }, 0},
		"a deadline with the next renewal":       {func(t *Timings) { t.RenewDeadline = 3 * s }, 1},
		"no time to stop":                        {func(t *Timings) { t.StopTimeout = 0 }, 1},
		"no time before balancing":               {func(t *Timings) { t.BalanceAfter = 0 }, 0},
		"less than that":                         {func(t *Timings) { t.BalanceAfter = -1 }, 1},
	} {
		timings := good
		tc.change(&timings)
		if errs := timings.Validate(); len(errs) != tc.want {
			t.Errorf("%s: got %v, want %d errors", name, errs, tc.want)
		}
	}
}
