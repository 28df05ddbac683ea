// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// Claim is what matters of one.
type Claim struct {
	Exists bool
	Value  string
	// Held and Foreground are its finalizers; Leaving claims wait for them.
	Held, Foreground, Leaving bool
	// Version is the resource version, 0 where it is not known.
	Version int64
}

// Pair is both claims.
type Pair struct {
	ID, Set Claim
}

// of returns one of the two. Other claims do not matter.
func (p *Pair) of(name string) *Claim {
	switch name {
	case id:
		return &p.ID
	case set:
		return &p.Set
	}
	return &Claim{}
}

// state is the pair, and the newest resource version of a write.
type state struct {
	Pair
	newest int64
}

// Model returns how the claims behave, one request after the other, from what they are at first.
func Model(first Pair) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{Pair: first, newest: max(first.ID.Version, first.Set.Version)} },
		Step: func(from, input, output any) (bool, any) { return step(from.(state), input.(Request), output.(Answer)) },
		DescribeOperation: func(input, output any) string {
			return describe(input.(Request), output.(Answer))
		},
		DescribeState: func(s any) string { return s.(state).String() },
	}
}

// step says whether a request may be answered so, and what the claims are afterwards.
func step(from state, in Request, out Answer) (bool, state) {
	next, outcome := do(from, in)
	switch out.Outcome {
	case Conflict:
		// The client may try again whenever others write at the same time, and nothing was done.
		return true, from
	case Unknown:
		if outcome == OK {
			next.forget(from, in)
		}
		return true, next
	case OK:
		if outcome == OK {
			return agree(from, next, in, out)
		}
		// Whoever removes the last finalizer after somebody else has done it is told that it is done.
		return in.Verb == release && outcome == NotFound, from
	}
	return out.Outcome == outcome, from
}

// agree compares what an answer shows with what the claims should be, and takes versions from it.
func agree(from, next state, in Request, out Answer) (bool, state) {
	ok := true
	before, after, shown := *from.of(in.Claim), next.of(in.Claim), *out.Claims.of(in.Claim)
	switch in.Verb {
	case list:
		ok = agreeOn(&next.ID, out.Claims.ID) && agreeOn(&next.Set, out.Claims.Set)
	case get:
		ok = agreeOn(after, shown)
	case removeCollection:
		// It does not show what stays.
		next.forget(from, in)
	case release:
		// Where it was the last thing to wait for, the claim is shown as it was.
		ok = !after.Exists || written(from.newest, before, after, shown)
	case remove, removeForeground, removeVersion:
		// Only claims that stay are shown.
		ok = after.Exists == out.Shown && (!after.Exists || written(from.newest, before, after, shown))
	default:
		ok = written(from.newest, before, after, shown)
	}
	next.newest = max(next.newest, next.ID.Version, next.Set.Version)
	return ok, next
}

// forget has the version not be known of a claim that was written without showing it. A deletion that finds the claim waiting
// already writes nothing.
func (s *state) forget(before state, in Request) {
	removes := in.Verb == remove || in.Verb == removeForeground || in.Verb == removeVersion || in.Verb == removeCollection
	if claim := s.of(in.Claim); !removes || *claim != *before.of(in.Claim) {
		claim.Version = 0
	}
}

// written tells whether a claim may have become what is shown: after everything else that was written, or by no write at all.
// It then has that version.
func written(newest int64, before Claim, after *Claim, shown Claim) bool {
	after.Version = shown.Version
	return *after == shown && (shown.Version > newest || shown == before)
}

// agreeOn tells whether a claim is what was read, whose version may be news.
func agreeOn(claim *Claim, read Claim) bool {
	if claim.Exists && claim.Version == 0 {
		claim.Version = read.Version
	}
	return *claim == read
}

// do does one request alone.
func do(from state, in Request) (next state, outcome Outcome) {
	next = from
	claim := next.of(in.Claim)
	switch in.Verb {
	case list:
		return next, OK
	case create, createHeld:
		if outcome = mayCreate(from.Pair, in.Claim); outcome == OK {
			*claim = Claim{Exists: true, Value: in.Value, Held: in.Verb == createHeld}
		}
		return next, outcome
	case apply:
		if !claim.Exists {
			return do(from, Request{Verb: create, Claim: in.Claim, Value: in.Value})
		}
	case removeCollection:
		if !claim.Exists {
			return next, OK
		}
	}
	if !claim.Exists {
		return next, NotFound
	}
	switch in.Verb {
	case get:
		return next, OK
	case put, removeVersion:
		if claim.Version != 0 && claim.Version != in.Version {
			return next, Conflict
		}
	}
	outcome = change(from.Pair, claim, in)
	if outcome != OK {
		return from, outcome
	}
	return next, OK
}

func mayCreate(from Pair, name string) Outcome {
	switch {
	case name == set && !from.ID.Exists:
		return NoID
	case name == set && from.ID.Leaving:
		return IDLeaving
	case from.of(name).Exists:
		return Exists
	}
	return OK
}

// change changes or deletes a claim that exists. Its version is not known then, until it is read.
func change(from Pair, claim *Claim, in Request) Outcome {
	switch in.Verb {
	case apply, put, mergePatch, strategicPatch, jsonPatch:
		switch {
		case claim.Value == in.Value:
		case in.Claim == set:
			return Immutable
		case from.Set.Exists:
			return ChangeInSet
		}
		claim.Value = in.Value
	case hold:
		if claim.Leaving && !claim.Held {
			return NoFinalizers
		}
		claim.Held, claim.Foreground = true, false
	case release:
		claim.Held, claim.Foreground = false, false
		if claim.Leaving {
			*claim = Claim{}
		}
	case remove, removeForeground, removeVersion, removeCollection:
		if in.Claim == id && from.Set.Exists {
			return DeleteInSet
		}
		claim.Foreground = claim.Foreground || in.Verb == removeForeground
		if !claim.Held && !claim.Foreground {
			*claim = Claim{}
			return OK
		}
		claim.Leaving = true
	}
	return OK
}

func (s state) String() string { return s.Pair.String() }

func (p Pair) String() string { return fmt.Sprintf("id %s, set %s", p.ID, p.Set) }

func (c Claim) String() string {
	if !c.Exists {
		return "absent"
	}
	text := fmt.Sprintf("%q@%d", c.Value, c.Version)
	for name, is := range map[string]bool{"held": c.Held, "foreground": c.Foreground, "leaving": c.Leaving} {
		if is {
			text += " " + name
		}
	}
	return text
}

func describe(in Request, out Answer) string {
	text := fmt.Sprintf("%s %s", in.Verb, in.Claim)
	if in.Value != "" {
		text += fmt.Sprintf(" %q", in.Value)
	}
	if in.Version != 0 {
		text += fmt.Sprintf(" @%d", in.Version)
	}
	text += ": " + string(out.Outcome)
	switch {
	case out.Shown:
		text += fmt.Sprintf(" (%s)", out.Claims)
	case out.said != "":
		text += fmt.Sprintf(" (%s)", out.said)
	}
	return text
}
