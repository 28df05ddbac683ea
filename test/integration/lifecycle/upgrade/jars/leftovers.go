// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package jars

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-annex/annex/registry/resource"
)

// leftovers is the kind in the version of another release.
func leftovers(release Release) resource.Kind[*LeftoverJar] {
	return resource.Kind[*LeftoverJar]{
		Plural: "jars", Singular: "jar",
		NewList: func() runtime.Object { return &LeftoverJarList{} },
		// What nobody can judge is not changed either; finalizers are taken away.
		PrepareForUpdate: func(_ context.Context, jar, old *LeftoverJar) { jar.Spec = old.Spec },
		Rules: resource.Rules[*LeftoverJar]{
			Create: func(_ context.Context, _ resource.Peers[*LeftoverJar], jar *LeftoverJar) error {
				return apierrors.NewForbidden(resourceOf(release.other()).GroupResource(), jar.Name,
					fmt.Errorf("jars of %s are what a change of version has left over; make them in %s", release.other(), release.version()))
			},
		},
	}
}
