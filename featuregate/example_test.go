// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	basegate "k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/featuregate"
)

// A program builds its gate before it has an API client. Gate.Run reports the features that the program has checked by then, and later ones.
func ExampleNew() {
	base := basegate.NewVersionedFeatureGate(version.MustParse("1.4"))
	err := base.AddVersioned(map[basegate.Feature]basegate.VersionedSpecs{
		"FastFrob": {{Version: version.MustParse("1.3"), Default: true, PreRelease: basegate.Beta}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	gate, err := featuregate.New(base, featuregate.Options{Component: "frobber", Version: "v1.4.0", Namespace: "frob-system", Instance: "frobber-0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(gate.Enabled("FastFrob"))
	// Output: true
}
