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
	// Starting: the Lease is held and the runnables are being made.
	Starting Role = "starting"
	// Leading: the runnables run.
	Leading Role = "leading"
	// Stopping: the contexts of the runnables have ended; the Lease is still held.
	Stopping Role = "stopping"
	// BackingOff: the last term failed, and the next attempt to acquire waits.
	BackingOff Role = "backing off"
)

// Reasons for which a group is stuck.
const (
	stuckStarting  = "starting"
	stuckStopping  = "stopping"
	stuckAcquiring = "acquiring"
	stuckReading   = "reading"
)

var stuckReasons = []string{stuckStarting, stuckStopping, stuckAcquiring, stuckReading}

// patience is the number of lease durations without a holder after which a group counts as stuck.
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
	Stuck string
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
	if s.Stuck != "" {
		_, _ = fmt.Fprintf(&line, "; stuck: %s", s.Stuck)
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
	// reading reports that err is about reading the Lease.
	reading  bool
	term     *Term
	work     *work
	handOver context.CancelCauseFunc
	// freeSince is when the Lease became free; valid if freeKnown.
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

func (s *status) setOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(Off)
	s.holder, s.err = "", nil
}

func (s *status) setFollowing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(Follower)
	s.term, s.work, s.handOver, s.holder, s.err = nil, nil, nil, "", nil
}

// observe records the holder of the Lease, when the Lease is free, and what is wrong with the holder.
func (s *status) observe(holder string, freeAt time.Duration, wrong error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder = holder
	// While the Lease is free, reading it does not show that it can be acquired.
	if s.reading || wrong != nil || freeAt > s.clock.Elapsed() {
		s.err, s.reading = wrong, false
	}
	s.freeSince, s.freeKnown = freeAt, true
}

// writeFailed records that the Lease could not be written, and reports whether the failure is the first in a row.
func (s *status) writeFailed(err error) bool { return s.recordFailure(err, false) }

// readFailed records that the Lease could not be read, and reports whether the failure is the first in a row.
func (s *status) readFailed(err error) bool { return s.recordFailure(err, true) }

func (s *status) recordFailure(err error, reading bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isNew := s.err == nil || s.reading != reading
	s.err, s.reading = err, reading
	if !s.freeKnown {
		s.freeSince, s.freeKnown = s.clock.Elapsed(), true
	}
	return isNew
}

func (s *status) backoff(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(BackingOff)
	s.err = err
}

func (s *status) setStarting(term *Term, work *work, handOver context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(Starting)
	s.term, s.work, s.handOver, s.holder, s.err = term, work, handOver, term.fence.Holder, nil
}

func (s *status) setLeading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.role == Starting {
		s.set(Leading)
	}
}

func (s *status) setStopping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(Stopping)
}

// handOverFunc reports whether the Lease is held, and since when; calling handOver makes the group release the Lease.
func (s *status) handOverFunc() (handOver context.CancelCauseFunc, since time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.role {
	case Starting, Leading, Stopping:
		return s.handOver, s.clock.Elapsed() - s.since, true
	default:
		return nil, 0, false
	}
}

// stuck returns the reason for which the group is stuck, and what it means.
func (s *status) stuck() (reason, detail string) {
	lasted := s.clock.Elapsed() - s.since
	switch {
	case s.role == Starting && lasted > s.timings.LeaseDuration:
		return stuckStarting, fmt.Sprintf("the Lease is held and nothing runs: New has not returned for %s", lasted.Round(time.Second))
	case s.role == Leading:
		if denied := s.term.denials.longest(s.clock.Elapsed(), s.timings.LeaseDuration); denied != "" {
			return stuckReading, fmt.Sprintf("the group leads, and its controllers wait for what they may not read: %s; grant that right", denied)
		}
	case s.role == Stopping && lasted > s.timings.StopTimeout/2:
		if unfinished := s.work.unfinished(); len(unfinished) > 0 {
			return stuckStopping, fmt.Sprintf("runners have not returned for %s: %s", lasted.Round(time.Second), strings.Join(unfinished, ", "))
		}
		return stuckStopping, fmt.Sprintf("the Lease has not been released for %s", lasted.Round(time.Second))
	case s.role == Follower && s.freeKnown && s.clock.Elapsed()-s.freeSince > patience*s.timings.LeaseDuration:
		detail = fmt.Sprintf("nobody has held the Lease for %s, as far as this process knows, and it could not be acquired", (s.clock.Elapsed() - s.freeSince).Round(time.Second))
		if s.err != nil {
			detail += ": " + firstLine(s.err)
		}
		return stuckAcquiring, detail
	}
	return "", ""
}

func (s *status) snapshot(group string) (Status, *Term, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reason, detail := s.stuck()
	return Status{Group: group, Role: s.role, Since: s.clock.Elapsed() - s.since, Holder: s.holder, Stuck: detail, Err: s.err}, s.term, reason
}

// denied reports whether retries are useless after the error.
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
	case status.Stuck != "":
		errs = append(errs, errors.New(status.Stuck))
	}
	if term != nil {
		errs = append(errs, term.check(request))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", g.Name, err)
	}
	return nil
}
