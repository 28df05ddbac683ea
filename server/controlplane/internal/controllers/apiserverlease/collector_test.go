// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserverlease

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestLeasesThatHaveRunOut(t *testing.T) {
	t.Parallel()
	now := time.Unix(100000, 0)
	renewed := func(ago time.Duration) *metav1.MicroTime { return ptr.To(metav1.NewMicroTime(now.Add(-ago))) }
	for name, tc := range map[string]struct {
		spec coordinationv1.LeaseSpec
		want bool
	}{
		"renewed":           {coordinationv1.LeaseSpec{RenewTime: renewed(time.Hour), LeaseDurationSeconds: ptr.To[int32](3600)}, false},
		"run out":           {coordinationv1.LeaseSpec{RenewTime: renewed(time.Hour + time.Second), LeaseDurationSeconds: ptr.To[int32](3600)}, true},
		"for a longer time": {coordinationv1.LeaseSpec{RenewTime: renewed(time.Hour + time.Second), LeaseDurationSeconds: ptr.To[int32](7200)}, false},
		"by a fast clock":   {coordinationv1.LeaseSpec{RenewTime: renewed(-time.Hour), LeaseDurationSeconds: ptr.To[int32](3600)}, false},
		"from the future":   {coordinationv1.LeaseSpec{RenewTime: renewed(-time.Hour - time.Second), LeaseDurationSeconds: ptr.To[int32](3600)}, true},
		"never renewed":     {coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To[int32](3600)}, true},
		"without duration":  {coordinationv1.LeaseSpec{RenewTime: renewed(0)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := expired(&coordinationv1.Lease{Spec: tc.spec}, now); got != tc.want {
				t.Errorf("it has run out: %t, want %t", got, tc.want)
			}
		})
	}
}
