// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fencing is how a leader's writes name the term they belong to, so that servers can refuse those of a term that is over.
//
// A term is one stretch of leadership under a Lease: the Lease's uid, how often it had changed hands, and the holder, which is
// unique to the term. The client of the term sends it in the header Annex-Term with every write. A server that keeps the Lease in
// its own etcd compares it inside the transaction of the write; another one reads the Lease before the write, which is best effort.
package fencing

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Header names the term of a write: namespace/lease;uid;transitions;holder.
const Header = "Annex-Term"

// ReleasedAnnotation of a Lease names the term that let go of it after all its work had ended, as Term.Value does.
const ReleasedAnnotation = "leadership.annex.io/released"

// Term is one stretch of leadership.
type Term struct {
	// Lease is the namespace and name of the Lease.
	Lease types.NamespacedName
	// LeaseUID is the uid of the Lease: one that was deleted and made anew starts counting anew.
	LeaseUID types.UID
	// Transitions is how often the Lease had changed hands when the term began.
	Transitions int32
	// Holder is unique to the term: <host>_<process uid>_<number of the term in the process>.
	Holder string
}

// String returns the value of the header.
func (t Term) String() string { return t.Lease.String() + ";" + t.Value() }

// Value returns what identifies the term among those of the same Lease: uid;transitions;holder. It is what servers compare.
func (t Term) Value() string {
	return string(t.LeaseUID) + ";" + strconv.FormatInt(int64(t.Transitions), 10) + ";" + t.Holder
}

// Parse reads the value of the header.
func Parse(header string) (Term, error) {
	parts := strings.SplitN(header, ";", 4)
	if len(parts) != 4 {
		return Term{}, malformed(header)
	}
	namespace, name, ok := strings.Cut(parts[0], "/")
	transitions, err := strconv.ParseInt(parts[2], 10, 32)
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") || parts[1] == "" || parts[3] == "" || err != nil || transitions < 0 {
		return Term{}, malformed(header)
	}
	return Term{
		Lease:    types.NamespacedName{Namespace: namespace, Name: name},
		LeaseUID: types.UID(parts[1]), Transitions: int32(transitions), Holder: parts[3],
	}, nil
}

func malformed(header string) error {
	const shown = 80
	if len(header) > shown {
		header = header[:shown] + "…"
	}
	return fmt.Errorf("%s: %q is not of the form namespace/lease;uid;transitions;holder; send what the client of the term sends, or no such header", Header, header)
}
