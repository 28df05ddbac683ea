// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/node"
)

// size takes names and quantities in turn.
func size(t *testing.T, pairs ...string) corev1.ResourceList {
	t.Helper()
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		quantity, err := resource.ParseQuantity(pairs[i+1])
		if err != nil {
			t.Fatal(err)
		}
		list[corev1.ResourceName(pairs[i])] = quantity
	}
	return list
}

func TestValidateNodeBalloon(t *testing.T) {
	t.Parallel()
	seconds := func(n int32) *int32 { return &n }
	for name, tc := range map[string]struct {
		nodeSize, balloonSize []string
		deadline              *int32
		policy                *node.ReclaimPolicy
		want                  []string
	}{
		"node size":                  {nodeSize: []string{"cpu", "6", "memory", "24Gi"}},
		"balloon size":               {balloonSize: []string{"cpu", "1500m", "memory", "512Mi"}},
		"cpu alone":                  {nodeSize: []string{"cpu", "6"}},
		"memory alone":               {balloonSize: []string{"memory", "1"}},
		"zero":                       {balloonSize: []string{"cpu", "0", "memory", "0"}},
		"more than any node has":     {nodeSize: []string{"cpu", "1M", "memory", "1Ei"}},
		"decimal bytes":              {balloonSize: []string{"memory", "1e9"}},
		"bytes in thousandths":       {balloonSize: []string{"memory", "1000m"}},
		"halves that add to bytes":   {balloonSize: []string{"memory", "0.5Ki"}},
		"a deadline":                 {balloonSize: []string{"cpu", "1"}, deadline: seconds(1)},
		"no patience":                {balloonSize: []string{"cpu", "1"}, deadline: seconds(0)},
		"neither":                    {want: []string{"spec: Required value"}},
		"empty maps":                 {nodeSize: []string{}, balloonSize: []string{}, want: []string{"spec: Required value"}},
		"both":                       {nodeSize: []string{"cpu", "1"}, balloonSize: []string{"cpu", "1"}, want: []string{"spec: Forbidden"}},
		"one of both is empty":       {nodeSize: []string{}, balloonSize: []string{"cpu", "1"}},
		"negative cpu":               {nodeSize: []string{"cpu", "-1m"}, want: []string{"spec.nodeSize[cpu]: Invalid value"}},
		"negative memory":            {balloonSize: []string{"memory", "-1"}, want: []string{"spec.balloonSize[memory]: Invalid value"}},
		"tenths of a millicore":      {balloonSize: []string{"cpu", "0.1m"}, want: []string{"spec.balloonSize[cpu]: Invalid value"}},
		"half a byte":                {nodeSize: []string{"memory", "500m"}, want: []string{"spec.nodeSize[memory]: Invalid value"}},
		"one and a half bytes":       {nodeSize: []string{"memory", "1.5"}, want: []string{"spec.nodeSize[memory]: Invalid value"}},
		"millicores that were meant": {balloonSize: []string{"memory", "512m"}, want: []string{"spec.balloonSize[memory]: Invalid value"}},
		"other resources": {
			nodeSize: []string{"pods", "1", "ephemeral-storage", "1Gi", "hugepages-2Mi", "2Mi", "example.com/gpu", "1", "cpu", "1", "CPU", "1"},
			want: []string{
				"spec.nodeSize[CPU]: Unsupported value", "spec.nodeSize[ephemeral-storage]: Unsupported value",
				"spec.nodeSize[example.com/gpu]: Unsupported value", "spec.nodeSize[hugepages-2Mi]: Unsupported value", "spec.nodeSize[pods]: Unsupported value",
			},
		},
		"revert":            {balloonSize: []string{"cpu", "1"}, policy: ptr.To(node.ReclaimPolicy("Revert"))},
		"hold":              {balloonSize: []string{"cpu", "1"}, policy: ptr.To(node.ReclaimPolicy("Hold"))},
		"other policy":      {balloonSize: []string{"cpu", "1"}, policy: ptr.To(node.ReclaimPolicy("revert")), want: []string{"spec.reclaimPolicy: Unsupported value"}},
		"empty policy":      {balloonSize: []string{"cpu", "1"}, policy: ptr.To(node.ReclaimPolicy("")), want: []string{"spec.reclaimPolicy: Unsupported value"}},
		"negative deadline": {balloonSize: []string{"cpu", "1"}, deadline: seconds(-1), want: []string{"spec.reclaimDeadlineSeconds: Invalid value"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			balloon := &node.NodeBalloon{Spec: node.NodeBalloonSpec{ReclaimDeadlineSeconds: tc.deadline, ReclaimPolicy: tc.policy}}
			if tc.nodeSize != nil {
				balloon.Spec.NodeSize = size(t, tc.nodeSize...)
			}
			if tc.balloonSize != nil {
				balloon.Spec.BalloonSize = size(t, tc.balloonSize...)
			}
			before := balloon.DeepCopy()
			wantErrors(t, "create", ValidateNodeBalloon(balloon), tc.want)
			wantErrors(t, "update", ValidateNodeBalloonUpdate(balloon, &node.NodeBalloon{}), tc.want)
			if diff := cmp.Diff(before, balloon); diff != "" {
				t.Errorf("validation changed the object (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestUnknownReclaimPoliciesAreToldTheKnown(t *testing.T) {
	t.Parallel()
	balloon := &node.NodeBalloon{Spec: node.NodeBalloonSpec{BalloonSize: size(t, "cpu", "1"), ReclaimPolicy: ptr.To(node.ReclaimPolicy("Keep"))}}
	const want = `spec.reclaimPolicy: Unsupported value: "Keep": supported values: "Hold", "Revert"`
	if got := ValidateNodeBalloon(balloon).ToAggregate(); got == nil || got.Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestNodeBalloonNameIsANodesName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"node-1":                 true,
		"ip-10-0-0-1.internal":   true,
		strings.Repeat("x", 253): true,
		strings.Repeat("x", 254): false,
		"Node":                   false,
		"a_b":                    false,
		"":                       false,
		"node-1\n":               false,
	} {
		if got := len(ValidateNodeBalloonName(name, false)) == 0; got != want {
			t.Errorf("%q: got valid %v, want %v", name, got, want)
		}
	}
}

func TestValidateNodeBalloonStatus(t *testing.T) {
	t.Parallel()
	condition := metav1.Condition{Type: "Settled", Status: metav1.ConditionFalse, Reason: "Deferred", LastTransitionTime: metav1.Now()}
	for name, tc := range map[string]struct {
		status node.NodeBalloonStatus
		want   []string
	}{
		"empty": {},
		"everything": {status: node.NodeBalloonStatus{
			ObservedGeneration: 2, NodeUID: "u", Allocatable: size(t, "cpu", "8", "memory", "32Gi"), Allocated: size(t, "cpu", "1m", "memory", "16Mi"),
			Effective: size(t, "cpu", "7999m"), PodName: "node-balloon-x7k2p", Conditions: []metav1.Condition{condition},
		}},
		"an effective size below zero": {status: node.NodeBalloonStatus{Effective: size(t, "cpu", "-1")}},
		"thousandths of a byte":        {status: node.NodeBalloonStatus{Allocatable: size(t, "memory", "16106127360500m")}},
		"other resources": {
			status: node.NodeBalloonStatus{Allocatable: size(t, "pods", "1"), Allocated: size(t, "pods", "1"), Effective: size(t, "pods", "1")},
			want:   []string{"status.allocatable[pods]: Unsupported value", "status.allocated[pods]: Unsupported value", "status.effective[pods]: Unsupported value"},
		},
		"negative amounts": {
			status: node.NodeBalloonStatus{Allocatable: size(t, "cpu", "-1"), Allocated: size(t, "memory", "-1")},
			want:   []string{"status.allocatable[cpu]: Invalid value", "status.allocated[memory]: Invalid value"},
		},
		"a bad pod name":      {status: node.NodeBalloonStatus{PodName: "A"}, want: []string{"status.podName: Invalid value"}},
		"negative generation": {status: node.NodeBalloonStatus{ObservedGeneration: -1}, want: []string{"status.observedGeneration: Invalid value"}},
		"a condition twice":   {status: node.NodeBalloonStatus{Conditions: []metav1.Condition{condition, condition}}, want: []string{"status.conditions[1]: Duplicate value"}},
		"a condition without time": {
			status: node.NodeBalloonStatus{Conditions: []metav1.Condition{{Type: "Settled", Status: "True", Reason: "Settled"}}},
			want:   []string{"status.conditions[0].lastTransitionTime: Required value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantErrors(t, "status", ValidateNodeBalloonStatusUpdate(&node.NodeBalloon{Status: tc.status}, &node.NodeBalloon{}), tc.want)
		})
	}
}

// wantErrors compares paths and types.
func wantErrors(t *testing.T, verb string, errs field.ErrorList, want []string) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, err.Field+": "+err.Type.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: errors differ (-want,+got):\n%s", verb, diff)
	}
}
