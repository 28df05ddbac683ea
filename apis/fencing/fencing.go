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

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
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

// Current returns the term that a Lease is in; Holder is empty while nobody leads.
func Current(lease *coordinationv1.Lease) Term {
	return Term{
		Lease: types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}, LeaseUID: lease.UID,
		Transitions: ptr.Deref(lease.Spec.LeaseTransitions, 0), Holder: ptr.Deref(lease.Spec.HolderIdentity, ""),
	}
}

// ParseValue reads what Value has returned for a term of the Lease.
func ParseValue(lease types.NamespacedName, value string) (Term, error) {
	parts := strings.SplitN(value, ";", 3)
	if len(parts) != 3 || parts[0] == "" {
		return Term{}, fmt.Errorf("%q is not of the form uid;transitions;holder", value)
	}
	transitions, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return Term{}, fmt.Errorf("%q is not of the form uid;transitions;holder: %w", value, err)
	}
	return Term{Lease: lease, LeaseUID: types.UID(parts[0]), Transitions: int32(transitions), Holder: parts[2]}, nil
}

// maxHeader bounds what servers compare and repeat in their answers.
const maxHeader = 1024

// Parse reads the value of the header.
func Parse(header string) (Term, error) {
	lease, value, _ := strings.Cut(header, ";")
	namespace, name, _ := strings.Cut(lease, "/")
	term, err := ParseValue(types.NamespacedName{Namespace: namespace, Name: name}, value)
	if err != nil || len(header) > maxHeader || !isName(namespace) || !isName(name) || term.Transitions < 0 || term.Holder == "" {
		return Term{}, malformed(header)
	}
	return term, nil
}

// isName tells whether a server could have an object of the name; others would lead out of the place they stand for.
func isName(name string) bool { return name != "" && len(content.IsPathSegmentName(name)) == 0 }

func malformed(header string) error {
	const shown = 80
	if len(header) > shown {
		header = header[:shown] + "…"
	}
	return fmt.Errorf("%s: %q is not of the form namespace/lease;uid;transitions;holder; send what the client of the term sends, or no such header", Header, header)
}
