// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestFeaturesAreAssignedEvenlyAndStayPut(t *testing.T) {
	t.Parallel()
	var replicas []replica
	for i := range 4 {
		replicas = append(replicas, says(fmt.Sprint("replica-", i), on, byFlag))
	}
	before := map[string]string{}
	load := map[string]int{}
	for i := range 400 {
		name := fmt.Sprint("Feature", i)
		for _, r := range replicas {
			r.features[name] = announcement{}
		}
		leader, ok := assignee(replicas, "ns", name)
		if !ok {
			t.Fatal("nobody leads")
		}
		before[name] = leader.name
		load[leader.name]++
	}
	for _, r := range replicas {
		if load[r.name] < 50 {
			t.Errorf("%s leads %d of 400, want about 100", r.name, load[r.name])
		}
	}
	gone := replicas[2].name
	for name, was := range before {
		now, _ := assignee(append(replicas[:2:2], replicas[3]), "ns", name)
		if was != gone && now.name != was {
			t.Fatalf("%s moved from %s to %s when %s went", name, was, now.name, gone)
		}
	}
	delete(replicas[0].features, "Feature1")
	delete(replicas[1].features, "Feature1")
	delete(replicas[2].features, "Feature1")
	if leader, _ := assignee(replicas, "ns", "Feature1"); leader.name != replicas[3].name {
		t.Errorf("%s leads a feature that only %s knows", leader.name, replicas[3].name)
	}
	if _, ok := assignee(nil, "ns", "Feature1"); ok {
		t.Error("nobody is there, and leads")
	}
}

func lease(name, holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: ptr.To(metav1.NewMicroTime(renewed)), LeaseDurationSeconds: ptr.To[int32](30)},
	}
}
