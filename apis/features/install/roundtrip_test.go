// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/kube-annex/annex/apis/features"
	"github.com/kube-annex/annex/apis/roundtriptest"
)

func TestNothingIsLostInAnyVersionOrEncoding(t *testing.T) {
	t.Parallel()
	roundtriptest.Run(t, Install, fuzzerFuncs)
}

// fuzzerFuncs make lists of several elements, which random filling does not, and enums that occur.
func fuzzerFuncs(serializer.CodecFactory) []any {
	return []any{
		func(value *features.Value, c randfill.Continue) {
			*value = []features.Value{"", features.ValueEnabled, features.ValueDisabled}[c.Intn(3)]
		},
		func(canary *features.Canary, c randfill.Continue) {
			canary.Percent = c.Int31n(101)
		},
		func(status *features.FeatureStatus, c randfill.Continue) {
			c.FillNoCustom(status)
			status.Tasks = make([]features.Task, c.Intn(4))
			for i := range status.Tasks {
				c.Fill(&status.Tasks[i])
			}
			status.Uses = make([]features.Use, c.Intn(4))
			for i := range status.Uses {
				c.Fill(&status.Uses[i])
			}
		},
		func(spec *features.FeatureReportSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			spec.Features = make([]features.ReportedFeature, c.Intn(4))
			for i := range spec.Features {
				c.Fill(&spec.Features[i])
			}
		},
	}
}
