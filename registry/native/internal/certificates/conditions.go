// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type (
	condition     = certificatesv1.CertificateSigningRequestCondition
	conditionType = certificatesv1.RequestConditionType
)

// decisions are the conditions that only /approval writes.
var decisions = []conditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied}

func conditionsOf(csr *signingRequest, kind conditionType) []condition {
	var found []condition
	for _, c := range csr.Status.Conditions {
		if c.Type == kind {
			found = append(found, c)
		}
	}
	return found
}

// takeStatus takes the status of a request to /status, but leaves decisions as they are stored. Where their number has changed the
// request is refused later.
func takeStatus(into, from *signingRequest) {
	stored := into.Status.DeepCopy()
	from.Status.DeepCopyInto(&into.Status)
	for _, kind := range decisions {
		before := conditionsOf(&signingRequest{Status: *stored}, kind)
		if len(before) != len(conditionsOf(into, kind)) {
			continue
		}
		for i := range into.Status.Conditions {
			if into.Status.Conditions[i].Type == kind {
				into.Status.Conditions[i], before = before[0], before[1:]
			}
		}
	}
	setTimes(into.Status.Conditions, stored.Conditions)
}

// takeApproval takes the conditions of a request to /approval.
func takeApproval(into, from *signingRequest) {
	stored := into.Status.Conditions
	into.Status.Conditions = from.DeepCopy().Status.Conditions
	setTimes(into.Status.Conditions, stored)
}

// setTimes completes conditions that come without times. A condition that was there before has changed when it did then.
func setTimes(conditions, stored []condition) {
	now := metav1.Now()
	for i := range conditions {
		c := &conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = now
			for _, before := range stored {
				if before.Type == c.Type && before.Status == c.Status && !before.LastTransitionTime.IsZero() {
					c.LastTransitionTime = before.LastTransitionTime
					break
				}
			}
		}
	}
}
