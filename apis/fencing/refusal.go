// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CauseTermOver is the type of the cause in the status of a write that was refused because its term is over. It tells this 403
// from one for want of rights.
const CauseTermOver metav1.CauseType = "TermOver"

// Refuse returns the 403 for a write of a term that is over. Now is the Lease's present term, nil if the Lease is gone. Who holds
// it now is told only to those who know the uid of the Lease: the write itself needs no right to read Leases.
func (t Term) Refuse(now *Term) *apierrors.StatusError {
	because := "the Lease is gone"
	switch {
	case now == nil:
	case now.LeaseUID != t.LeaseUID:
		because = "the Lease was deleted and made anew since"
	case now.Holder == "":
		because = "nobody holds the Lease now"
	default:
		because = fmt.Sprintf("%s holds the Lease now, after %d transitions", now.Holder, now.Transitions)
	}
	message := fmt.Sprintf("the term of Lease %s held by %s, after %d transitions, is over: %s; the write was refused", t.Lease, t.Holder, t.Transitions, because)
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: CauseTermOver, Message: because}}},
	}}
}

// IsTermOver tells whether a server refused a write because its term is over.
func IsTermOver(err error) bool { return apierrors.HasStatusCause(err, CauseTermOver) }
