// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/roundtriptest"
)

func TestNothingIsLostInAnyVersionOrEncoding(t *testing.T) {
	t.Parallel()
	roundtriptest.Run(t, Install, fuzzerFuncs)
}

// fuzzerFuncs make claim values of what tends to get lost: newlines, blanks, quotes, and runes of every length.
func fuzzerFuncs(serializer.CodecFactory) []any {
	return []any{
		func(spec *multicluster.ClusterClaimSpec, c randfill.Continue) {
			alphabet := []rune("ab \n\r\t\"'\\:#|\x00\u00e9\u20ac\U0001F388\uFFFD")
			value := make([]rune, c.Intn(64))
			for i := range value {
				value[i] = alphabet[c.Intn(len(alphabet))]
			}
			spec.Value = string(value)
		},
	}
}
