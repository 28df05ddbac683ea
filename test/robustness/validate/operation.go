// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"errors"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Never is when a request returns that was not answered.
const Never = math.MaxInt64

// Verb is what a client does.
type Verb string

// The requests of clients.
const (
	Create    Verb = "create"
	Update    Verb = "update"
	Patch     Verb = "patch"
	Remove    Verb = "delete"
	RemoveOne Verb = "delete this version"
	Get       Verb = "get"
	List      Verb = "list"
	// Stale is a get that a cache may answer.
	Stale Verb = "get from a cache"
)

// Writes reports whether the request changes an object.
func (v Verb) Writes() bool {
	return v == Create || v == Update || v == Patch || v == Remove || v == RemoveOne
}

// Outcome is how a request ended.
type Outcome string

// The outcomes of requests.
const (
	Done     Outcome = "done"
	Exists   Outcome = "exists already"
	NotFound Outcome = "not found"
	Conflict Outcome = "conflict"
	// Unknown may have been done or not; unsent has reached nobody, and refused was not let in.
	Unknown Outcome = "unknown"
	Unsent  Outcome = "unsent"
	Refused Outcome = "refused"
	// Unexpected is an answer that nothing here should be given.
	Unexpected Outcome = "unexpected"
)

// Item is an object at a version.
type Item struct {
	Name, Value string
	Version     int64
}

func (i Item) String() string { return fmt.Sprintf("%s=%q at %d", i.Name, i.Value, i.Version) }

// Operation is a request and its answer. Times are since the load began.
type Operation struct {
	Client       int
	Verb         Verb
	Name, Value  string
	Version      int64
	Call, Answer int64
	Outcome      Outcome
	// Shown is what the answer shows; lists show items, at a version.
	Shown  Item
	Items  []Item
	Listed int64
	Server string
	Err    error
	// turn is the place among the creations, or deletions, of an object that were not answered.
	turn int
}

// Failed reports whether the client received no usable answer.
func (o Operation) Failed() bool {
	switch o.Outcome {
	case Unknown, Unsent, Refused, Unexpected:
		return true
	}
	return false
}

func (o Operation) String() string {
	took := "…"
	if o.Answer != Never {
		took = time.Duration(o.Answer - o.Call).Round(time.Microsecond).String()
	}
	text := fmt.Sprintf("client %d at %s for %s: %s %s", o.Client, time.Duration(o.Call).Round(time.Microsecond), took, o.Verb, o.Name)
	if o.Value != "" {
		text += fmt.Sprintf(" %q", o.Value)
	}
	if o.Version != 0 {
		text += fmt.Sprintf(" of version %d", o.Version)
	}
	text += ": " + string(o.Outcome)
	switch {
	case o.Outcome == Done && o.Verb == List:
		text += fmt.Sprintf(", %v at %d", o.Items, o.Listed)
	case o.Outcome == Done && o.Shown.Version != 0:
		text += ", " + o.Shown.String()
	}
	if o.Err != nil {
		text += fmt.Sprintf(" (%s said %v%s)", o.Server, o.Err, causes(o.Err))
	}
	return text
}

// causes are what an answer said beside its message. That of a proxy that did not reach the server is there.
func causes(err error) (text string) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	for _, cause := range status.Status().Details.Causes {
		text += ": " + cause.Message
	}
	return text
}

// Event is what a watcher was told.
type Event struct {
	Kind string
	Item
}

func (e Event) String() string { return e.Kind + " " + e.Item.String() }

// The kinds of events.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
	Bookmark = "BOOKMARK"
	Failure  = "ERROR"
)

// Spell is what a watcher saw from one list to the next.
type Spell struct {
	// items were there at version from, and events followed up to reached.
	Items         []Item
	From, Reached int64
	Events        []Event
}

// Record is all that is known at the end.
type Record struct {
	Operations []Operation
	// watchers have spells.
	Watchers [][]Spell
	// Final is the list at the end, and ended its version.
	Final []Item
	Ended int64
}
