// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/types"
)

// ClaimUIDAnnotation of a ClusterIDReservation is the uid of the claim that the reservation is held for now, where that is
// not spec.claimUID, which cannot be changed. A member that joins again before its former reservation was freed takes the
// reservation over with it: in between the id is free at no time.
const ClaimUIDAnnotation = "annex.io/claim-uid"

// HoldingClaim returns the uid of the clusterset.k8s.io claim that the reservation is held for.
func (r *ClusterIDReservation) HoldingClaim() types.UID {
	if uid := r.Annotations[ClaimUIDAnnotation]; uid != "" {
		return types.UID(uid)
	}
	return r.Spec.ClaimUID
}
