// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

// settleTaint keeps pods off a node whose balloon does not hold yet what it should. New nodes have the taint from their kubelets.
func (d *decision) settleTaint() {
	if d.view.taint == nil {
		return
	}
	tainted := slices.ContainsFunc(d.node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(d.view.taint) })
	switch {
	case d.removing:
		d.untaint = tainted
	case d.pod == nil || ended(d.pod):
		// A new node has its taint from its kubelet; who wants nothing held needs none.
		d.change.taint = !tainted && d.wish != floor()
	case d.upToSize():
		d.untaint = tainted
	case d.balloon != nil && d.displaced():
		d.change.taint = !tainted
	}
}

// upToSize tells whether the balloon is as large as it will be for now. What it waits for with a request, the scheduler leaves free.
func (d *decision) upToSize() bool {
	granted, ok := allocated(d.pod)
	if !ok || d.needOthers {
		return false
	}
	if granted.covers(d.wish) || d.balloon == nil {
		return true
	}
	asks := requested(d.pod)
	for i := range d.status.Conditions {
		if c := &d.status.Conditions[i]; c.Type == v1alpha1.NodeBalloonSettled {
			switch c.Reason {
			case v1alpha1.ReasonDeferred, v1alpha1.ReasonReverted, v1alpha1.ReasonInfeasible:
				return true
			case v1alpha1.ReasonDisplaced:
				return d.resize == nil && (asks == granted || d.holds() && condition(d.pod, corev1.PodResizePending) != nil)
			}
		}
	}
	return false
}

// parseTaint reads KEY[=VALUE]:EFFECT.
func parseTaint(text string) (*corev1.Taint, error) {
	rest, effect, found := strings.Cut(text, ":")
	key, value, _ := strings.Cut(rest, "=")
	problems := validation.IsQualifiedName(key)
	problems = append(problems, validation.IsValidLabelValue(value)...)
	known := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule}
	if !found || !slices.Contains(known, corev1.TaintEffect(effect)) {
		problems = append(problems, "the effect must be NoSchedule or PreferNoSchedule, since the taint is for pods that are not on the node yet")
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%q is not KEY[=VALUE]:EFFECT: %s", text, strings.Join(problems, "; "))
	}
	return &corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}, nil
}
