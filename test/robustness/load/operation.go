// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// never is when a request returns that was not answered.
const never = math.MaxInt64

// verb is what a client does.
type verb string

const (
	create    verb = "create"
	update    verb = "update"
	patch     verb = "patch"
	remove    verb = "delete"
	removeOne verb = "delete this version"
	get       verb = "get"
	list      verb = "list"
	// stale is a get that a cache may answer.
	stale verb = "get from a cache"
)

func (v verb) writes() bool {
	return v == create || v == update || v == patch || v == remove || v == removeOne
}

// outcome is how a request ended.
type outcome string

const (
	done     outcome = "done"
	exists   outcome = "exists already"
	notFound outcome = "not found"
	conflict outcome = "conflict"
	// unknown may have been done or not; unsent has reached nobody, and refused was not let in.
	unknown outcome = "unknown"
	unsent  outcome = "unsent"
	refused outcome = "refused"
	// unexpected is an answer that nothing here should be given.
	unexpected outcome = "unexpected"
)

// operation is a request and its answer. Times are since the load began.
type operation struct {
	client       int
	verb         verb
	name, value  string
	version      int64
	call, answer int64
	outcome      outcome
	// shown is what the answer shows; lists show items, at a version.
	shown  item
	items  []item
	listed int64
	server string
	err    error
	// turn is the place among the creations, or deletions, of an object that were not answered.
	turn int
}

// failed tells whether the client got no answer of use.
func (o operation) failed() bool {
	switch o.outcome {
	case unknown, unsent, refused, unexpected:
		return true
	}
	return false
}

func (o operation) String() string {
	took := "…"
	if o.answer != never {
		took = time.Duration(o.answer - o.call).Round(time.Microsecond).String()
	}
	text := fmt.Sprintf("client %d at %s for %s: %s %s", o.client, time.Duration(o.call).Round(time.Microsecond), took, o.verb, o.name)
	if o.value != "" {
		text += fmt.Sprintf(" %q", o.value)
	}
	if o.version != 0 {
		text += fmt.Sprintf(" of version %d", o.version)
	}
	text += ": " + string(o.outcome)
	switch {
	case o.outcome == done && o.verb == list:
		text += fmt.Sprintf(", %v at %d", o.items, o.listed)
	case o.outcome == done && o.shown.Version != 0:
		text += ", " + o.shown.String()
	}
	if o.err != nil {
		text += fmt.Sprintf(" (%s said %v%s)", o.server, o.err, causes(o.err))
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

// event is what a watcher was told.
type event struct {
	kind string
	item
}

func (e event) String() string { return e.kind + " " + e.item.String() }

const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
	bookmark = "BOOKMARK"
	failure  = "ERROR"
)

// spell is what a watcher saw from one list to the next.
type spell struct {
	// items were there at version from, and events followed up to reached.
	items         []item
	from, reached int64
	events        []event
}

// record is all that is known at the end.
type record struct {
	operations []operation
	// watchers have spells.
	watchers [][]spell
	// final is the list at the end, and ended its version.
	final []item
	ended int64
}
