// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/kube-annex/annex/apis/node"
	"github.com/kube-annex/annex/apis/roundtriptest"
)

func TestNothingIsLostInAnyVersionOrEncoding(t *testing.T) {
	t.Parallel()
	roundtriptest.Run(t, Install, fuzzerFuncs)
}

// fuzzerFuncs make quantities as people write them: millicores, decimal and binary bytes, and zero.
func fuzzerFuncs(serializer.CodecFactory) []any {
	return []any{
		func(policy *node.ReclaimPolicy, c randfill.Continue) {
			*policy = []node.ReclaimPolicy{node.ReclaimRevert, node.ReclaimHold}[c.Intn(2)]
		},
		func(list *corev1.ResourceList, c randfill.Continue) {
			*list = nil
			if c.Intn(4) == 0 {
				return
			}
			*list = corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(c.Int63n(1_000_000), resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(c.Int63(), []resource.Format{resource.BinarySI, resource.DecimalSI}[c.Intn(2)]),
			}
		},
	}
}
