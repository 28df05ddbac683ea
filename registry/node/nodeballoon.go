// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-annex/annex/apis/node"
	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/apis/node/validation"
	"github.com/kube-annex/annex/registry/resource"
)

var nodeBalloons = resource.Kind[*node.NodeBalloon]{
	Plural:     "nodeballoons",
	Singular:   "nodeballoon",
	ShortNames: []string{"nb"},
	Scope:      resource.Cluster,
	NewList:    func() runtime.Object { return &node.NodeBalloonList{} },

	Validate:             validation.ValidateNodeBalloon,
	ValidateUpdate:       validation.ValidateNodeBalloonUpdate,
	ValidateStatusUpdate: validation.ValidateNodeBalloonStatusUpdate,
	GatedFields:          v1alpha1.GatedFields(),

	Subresources: []resource.Subresource[*node.NodeBalloon]{{
		Name:   "resize",
		Fields: [][]string{{"spec", "nodeSize"}, {"spec", "balloonSize"}},
		Take: func(into, from *node.NodeBalloon) {
			into.Spec.NodeSize, into.Spec.BalloonSize = from.Spec.NodeSize, from.Spec.BalloonSize
		},
	}},

	Columns: []resource.Column[*node.NodeBalloon]{
		{Name: "Size-CPU", Description: "CPU the node appears to have.", Of: effective(corev1.ResourceCPU)},
		{Name: "Size-Memory", Description: "Memory the node appears to have.", Of: effective(corev1.ResourceMemory)},
		{Name: "Balloon-CPU", Description: "CPU the balloon holds.", Of: allocated(corev1.ResourceCPU)},
		{Name: "Balloon-Memory", Description: "Memory the balloon holds.", Of: allocated(corev1.ResourceMemory)},
		{Name: "Status", Description: "Whether the balloon has the size that is asked for, or why not.", Of: settledReason},
	},
}

func effective(name corev1.ResourceName) func(*node.NodeBalloon) any {
	return func(balloon *node.NodeBalloon) any { return quantity(balloon.Status.Effective, name) }
}

func allocated(name corev1.ResourceName) func(*node.NodeBalloon) any {
	return func(balloon *node.NodeBalloon) any { return quantity(balloon.Status.Allocated, name) }
}

func quantity(list corev1.ResourceList, name corev1.ResourceName) any {
	if q, ok := list[name]; ok {
		return q.String()
	}
	return ""
}

func settledReason(balloon *node.NodeBalloon) any {
	for _, condition := range balloon.Status.Conditions {
		if condition.Type != node.NodeBalloonSettled {
			continue
		}
		if condition.Status == metav1.ConditionTrue && condition.ObservedGeneration < balloon.Generation {
			return node.ReasonPending
		}
		return condition.Reason
	}
	return node.ReasonPending
}
