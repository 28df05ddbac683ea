// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

// size is an amount of cpu, in thousandths of a core, and of memory, in bytes.
type size struct {
	cpu, memory int64
}

// floor is the size of a balloon that holds nothing. It is not zero, since a pod without requests has another class of service, which
// a resize may not change.
func floor() size { return size{cpu: 1, memory: 16 << 20} }

// sizeOf reads a list; what it lacks is 0, and what is too large to count is the largest number.
func sizeOf(list corev1.ResourceList) size {
	return size{cpu: amount(*list.Cpu(), resource.Milli), memory: amount(*list.Memory(), 0)}
}

func amount(q resource.Quantity, scale resource.Scale) int64 {
	if q.Cmp(*resource.NewScaledQuantity(math.MaxInt64, scale)) >= 0 {
		return math.MaxInt64
	}
	return max(q.ScaledValue(scale), 0)
}

func (s size) list() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(s.cpu, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(s.memory, resource.BinarySI),
	}
}

// String is how people read it.
func (s size) String() string {
	list := s.list()
	return fmt.Sprintf("cpu %s, memory %s", list.Cpu(), list.Memory())
}

// plus returns both together; what is too large to count is the largest number.
func (s size) plus(other size) size {
	add := func(a, b int64) int64 {
		if a > math.MaxInt64-b {
			return math.MaxInt64
		}
		return a + b
	}
	return size{cpu: add(s.cpu, other.cpu), memory: add(s.memory, other.memory)}
}

// less returns what is left of s without other; nothing is less than 0.
func (s size) less(other size) size {
	return size{cpu: max(s.cpu-other.cpu, 0), memory: max(s.memory-other.memory, 0)}
}

func (s size) atLeast(other size) size {
	return size{cpu: max(s.cpu, other.cpu), memory: max(s.memory, other.memory)}
}

func (s size) atMost(other size) size {
	return size{cpu: min(s.cpu, other.cpu), memory: min(s.memory, other.memory)}
}

// covers tells whether s is no smaller than other in anything.
func (s size) covers(other size) bool { return s.cpu >= other.cpu && s.memory >= other.memory }

// wanted is how large a balloon shall be on a node with so much allocatable.
func wanted(spec v1alpha1.NodeBalloonSpec, allocatable size) size {
	if len(spec.NodeSize) == 0 {
		return sizeOf(spec.BalloonSize).atLeast(floor())
	}
	// In target mode nothing, and what is not named, leaves the balloon at its floor.
	target := sizeOf(spec.NodeSize)
	if target.cpu == 0 {
		target.cpu = math.MaxInt64
	}
	if target.memory == 0 {
		target.memory = math.MaxInt64
	}
	return allocatable.less(target).atLeast(floor())
}
