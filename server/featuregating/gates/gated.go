// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kube-annex/annex/apis/gatedfield"
)

// Gated lists what a server serves only while features permit it.
type Gated struct {
	Fields    []gatedfield.Field
	Resources []GatedResource
}

// GatedResource is one gated resource with all its subresources.
type GatedResource struct {
	// Gate is the name of the feature that permits the resource.
	Gate string
	schema.GroupVersionResource
}

// Gates returns the names of all features that anything depends on, in order.
func (g Gated) Gates() []string {
	names := sets.New[string]()
	for _, field := range g.Fields {
		names.Insert(field.Gate)
	}
	for _, resource := range g.Resources {
		names.Insert(resource.Gate)
	}
	return sets.List(names)
}

// Without returns what is not permitted.
func (g Gated) Without(permitted sets.Set[string]) Gated {
	return Gated{
		Fields: slices.DeleteFunc(slices.Clone(g.Fields), func(field gatedfield.Field) bool { return permitted.Has(field.Gate) }),
		Resources: slices.DeleteFunc(slices.Clone(g.Resources), func(resource GatedResource) bool {
			return permitted.Has(resource.Gate)
		}),
	}
}

// serves reports whether a path of a generic apiserver belongs to the resource.
func (r GatedResource) serves(path string) bool {
	root := "/apis/" + r.Group + "/" + r.Version + "/"
	if r.Group == "" {
		root = "/api/" + r.Version + "/"
	}
	rest, ok := strings.CutPrefix(path, root)
	if !ok {
		return false
	}
	rest = strings.TrimPrefix(rest, "watch/")
	rest = strings.TrimPrefix(rest, "namespaces/{namespace}/")
	first, _, _ := strings.Cut(rest, "/")
	return first == r.Resource
}
