// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Role is what a process is to a group.
type Role string

// Roles.
const (
	// Off: the group's condition does not hold.
	Off Role = "off"
	// Follower: another process holds the Lease, or nobody does yet.
	Follower Role = "follower"
	// Starting: the Lease is held and the runners are being made.
	Starting Role = "starting"
	// Leading: the runners run.
	Leading Role = "leading"
	// Stopping: the runners have been told to return; the Lease is still held.
	Stopping Role = "stopping"
	// Resting: the last term failed, and the next campaign waits.
	Resting Role = "resting"
)

// Reasons for which a group is wedged.
const (
	wedgedStarting  = "starting"
	wedgedStopping  = "stopping"
	wedgedAcquiring = "acquiring"
)

var wedges = []string{wedgedStarting, wedgedStopping, wedgedAcquiring}

// patience is how many lease durations nobody may hold the Lease before that counts as wedged.
const patience = 2

// Status is the role of the process in one group.
type Status struct {
	Group string
	Role  Role
	// Since is how long the role has lasted.
	Since time.Duration
	// Holder is who holds the Lease, as far as this process knows.
	Holder string
	// Wedged says what keeps the group from making progress; empty means nothing.
	Wedged string
	// Err is the last failure to reach the Lease, or why the last term failed.
	Err error
}

// String is the line of /healthz/leadership.
func (s Status) String() string {
	var line strings.Builder
	_, _ = fmt.Fprintf(&line, "%s: %s for %s", s.Group, s.Role, s.Since.Round(time.Millisecond))
	if s.Holder != "" {
		_, _ = fmt.Fprintf(&line, ", the Lease is held by %s", s.Holder)
	}
	if s.Wedged != "" {
		_, _ = fmt.Fprintf(&line, "; wedged: %s", s.Wedged)
	}
	if s.Err != nil {
		_, _ = fmt.Fprintf(&line, "; %s", firstLine(s.Err))
	}
	return line.String()
}

// firstLine leaves stacks to the log.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// status is the state of a group as others see it.
type status struct {
	clock   Clock
	timings Timings

	mu     sync.Mutex
	role   Role
	since  time.Duration
	holder string
	err    error
	// reading tells that err is about reading the Lease.
	reading bool
	term    *Term
	work    *work
	yield   context.CancelCauseFunc
	// freeSince is from when on the Lease could have been taken; freeKnown whether there is such a time.
	freeSince time.Duration
	freeKnown bool
}

func newStatus(clock Clock, timings Timings) *status {
	return &status{clock: clock, timings: timings, role: Off, since: clock.Elapsed()}
}

func (s *status) set(role Role) {
	if s.role != role {
		s.role, s.since = role, s.clock.Elapsed()
	}
	s.freeKnown = false
}

func (s *status) off() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(Off)
	s.holder, s.err = "", nil
}

func (s *status) follows() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(Follower)
	s.term, s.work, s.yield, s.holder, s.err = nil, nil, nil, "", nil
}

// seen notes who holds the Lease, when it is free, and what is wrong with that.
func (s *status) seen(holder string, freeAt time.Duration, wrong error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder = holder
	// While the Lease is free, reading it does not show that it can be acquired.
	if s.reading || wrong != nil || freeAt > s.clock.Elapsed() {
		s.err, s.reading = wrong, false
	}
	s.freeSince, s.freeKnown = freeAt, true
}

// failed notes that the Lease could not be written, and tells whether that is news.
func (s *status) failed(err error) bool { return s.fails(err, false) }

// failedToRead notes that the Lease could not be read, and tells whether that is news.
func (s *status) failedToRead(err error) bool { return s.fails(err, true) }

func (s *status) fails(err error, reading bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.err == nil || s.reading != reading
	s.err, s.reading = err, reading
	if !s.freeKnown {
		s.freeSince, s.freeKnown = s.clock.Elapsed(), true
	}
	return news
}

func (s *status) rests(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(Resting)
	s.err = err
}

func (s *status) leads(term *Term, work *work, yield context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(Starting)
	s.term, s.work, s.yield, s.holder, s.err = term, work, yield, term.fence.Holder, nil
}

func (s *status) begins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.role == Starting {
		s.set(Leading)
	}
}

func (s *status) stops() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(Stopping)
}

// held tells whether the Lease is held, and for how long; let go makes the group release it.
func (s *status) held() (letGo context.CancelCauseFunc, since time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.role {
	case Starting, Leading, Stopping:
		return s.yield, s.clock.Elapsed() - s.since, true
	default:
		return nil, 0, false
	}
}

// wedge returns the reason for which the group is wedged, and what it means.
func (s *status) wedge() (reason, detail string) {
	lasted := s.clock.Elapsed() - s.since
	switch {
	case s.role == Starting && lasted > s.timings.LeaseDuration:
		return wedgedStarting, fmt.Sprintf("the Lease is held and nothing runs: New has not returned for %s", lasted.Round(time.Second))
	case s.role == Stopping && lasted > s.timings.StopTimeout/2:
		if unfinished := s.work.unfinished(); len(unfinished) > 0 {
			return wedgedStopping, fmt.Sprintf("runners have not returned for %s: %s", lasted.Round(time.Second), strings.Join(unfinished, ", "))
		}
		return wedgedStopping, fmt.Sprintf("the Lease has not been released for %s", lasted.Round(time.Second))
	case s.role == Follower && s.freeKnown && s.clock.Elapsed()-s.freeSince > patience*s.timings.LeaseDuration:
		detail = fmt.Sprintf("nobody has held the Lease for %s, as far as this process knows, and it could not be acquired", (s.clock.Elapsed() - s.freeSince).Round(time.Second))
		if s.err != nil {
			detail += ": " + firstLine(s.err)
		}
		return wedgedAcquiring, detail
	}
	return "", ""
}

func (s *status) snapshot(group string) (Status, *Term, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reason, detail := s.wedge()
	return Status{Group: group, Role: s.role, Since: s.clock.Elapsed() - s.since, Holder: s.holder, Wedged: detail, Err: s.err}, s.term, reason
}

// denied tells errors that no retry mends.
func denied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

// check returns why the group is not healthy.
func (g *group) check(request *http.Request) error {
	status, term, _ := g.status.snapshot(g.Name)
	var errs []error
	switch {
	case status.Role == Follower && errors.Is(status.Err, errDuplicate):
		errs = append(errs, status.Err)
	case status.Role == Follower && status.Err != nil && denied(status.Err):
		errs = append(errs, fmt.Errorf("the Lease %s cannot be used: %w; grant get, list, watch, create and update on leases of coordination.k8s.io in the namespace, and see that it exists", g.Lease, status.Err))
	case status.Wedged != "":
		errs = append(errs, errors.New(status.Wedged))
	}
	if term != nil {
		errs = append(errs, term.check(request))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", g.Name, err)
	}
	return nil
}
