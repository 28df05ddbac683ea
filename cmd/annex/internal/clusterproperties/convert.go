// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterproperties

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/apis/multicluster/validation"
)

const (
	// Group is the API group of ClusterProperties.
	Group = "about.k8s.io"
	// Version is that of ClusterProperties that are printed; a cluster is spoken to in its own.
	Version = "v1alpha1"
	// PropertyID is the ClusterProperty that holds the cluster's id.
	PropertyID = "cluster.clusterset.k8s.io"

	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// Item is one object on its way from one kind to the other.
type Item struct {
	// From is the name of the object that is taken, and Name what it is called as the other kind.
	From, Name string
	// Object is what is to be, or nil if it is refused already.
	Object *unstructured.Unstructured
	// Refusal says why it cannot be taken, and what to do.
	Refusal string
	// id tells that it is the id of the cluster.
	id bool
}

// direction is one of the two ways.
type direction struct {
	from, to schema.GroupKind
	version  string
	// names are those that are called something else: that of the id.
	names map[string]string
	// taken says why a name cannot be kept.
	taken map[string]string
	// check says what is wrong with what would be made.
	check func(name, value string) string
}

var (
	property = schema.GroupKind{Group: Group, Kind: "ClusterProperty"}
	claim    = schema.GroupKind{Group: v1alpha1.SchemeGroupVersion.Group, Kind: "ClusterClaim"}
)

func importing() direction {
	return direction{
		from: property, to: claim, version: v1alpha1.SchemeGroupVersion.Version,
		names: map[string]string{PropertyID: v1alpha1.ClaimID},
		taken: map[string]string{v1alpha1.ClaimID: "a ClusterClaim of this name is the id of the cluster, which is called " + PropertyID +
			" among ClusterProperties; give the property that name, or another one that is free"},
		check: checkClaim,
	}
}

func exporting() direction {
	return direction{
		from: claim, to: property, version: Version,
		names: map[string]string{v1alpha1.ClaimID: PropertyID},
		taken: map[string]string{PropertyID: "a ClusterProperty of this name is the id of the cluster, which is called " + v1alpha1.ClaimID +
			" among ClusterClaims; give the claim another name"},
		check: func(string, string) string { return "" },
	}
}

// Claims turns ClusterProperties into ClusterClaims. The id comes first, then the set, then the others by name.
func Claims(properties []unstructured.Unstructured) []Item { return importing().items(properties) }

// Properties turns ClusterClaims into ClusterProperties, in the same order.
func Properties(claims []unstructured.Unstructured) []Item { return exporting().items(claims) }

func (d direction) items(objects []unstructured.Unstructured) []Item {
	items := make([]Item, 0, len(objects))
	seen := map[string]bool{}
	for i := range objects {
		item := d.item(&objects[i])
		if item.Refusal == "" && seen[item.From] {
			item.Object, item.Refusal = nil, "it is given more than once; keep one of them"
		}
		seen[item.From] = true
		items = append(items, item)
	}
	slices.SortStableFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
	return withoutSetOfAnotherID(items)
}

// withoutSetOfAnotherID refuses the set if the id is, or if what may have been meant as the id is.
func withoutSetOfAnotherID(items []Item) []Item {
	given, refused := false, ""
	for i := range items {
		given = given || items[i].id
	}
	for i := range items {
		if items[i].Refusal != "" && (items[i].id || !given && isID(items[i].From)) {
			refused = items[i].From
		}
	}
	for i := range items {
		if refused != "" && items[i].Name == v1alpha1.ClaimClusterSet && items[i].Refusal == "" {
			items[i].Object, items[i].Refusal = nil, refusedWithTheID(refused)
		}
	}
	return items
}

func refusedWithTheID(from string) string {
	return fmt.Sprintf("%s was refused, and the set is not taken without the id that belongs to it; settle that first", from)
}

func isID(name string) bool { return name == v1alpha1.ClaimID || name == PropertyID }

func rank(item Item) int {
	switch {
	case item.id:
		return 0
	case item.Name == v1alpha1.ClaimClusterSet:
		return 1
	}
	return 2
}

func (d direction) item(object *unstructured.Unstructured) Item {
	item := Item{From: object.GetName(), Name: object.GetName()}
	refuse := func(format string, values ...any) Item {
		item.Refusal = fmt.Sprintf(format, values...)
		return item
	}
	if kind := object.GroupVersionKind().GroupKind(); kind != d.from {
		return refuse("it is a %s and no %s; leave it out", kind, d.from)
	}
	if reason, taken := d.taken[item.From]; taken {
		return refuse("%s", reason)
	}
	if name, ok := d.names[item.From]; ok {
		item.Name, item.id = name, true
	}
	spec, found, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil || !found {
		return refuse("it has no spec; set spec.value")
	}
	value, ok := spec["value"].(string)
	if !ok {
		return refuse("spec.value is no string; put it in quotes")
	}
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		if field != "value" {
			return refuse("a %s has no place for spec.%s; remove that first", d.to.Kind, field)
		}
	}
	if problem := d.check(item.Name, value); problem != "" {
		return refuse("%s", problem)
	}
	item.Object = &unstructured.Unstructured{}
	item.Object.SetGroupVersionKind(d.to.WithVersion(d.version))
	item.Object.SetName(item.Name)
	item.Object.SetLabels(object.GetLabels())
	item.Object.SetAnnotations(annotations(object))
	item.Object.Object["spec"] = map[string]any{"value": value}
	return item
}

// annotations are those that are taken along.
func annotations(object *unstructured.Unstructured) map[string]string {
	taken := object.GetAnnotations()
	delete(taken, lastApplied)
	if len(taken) == 0 {
		return nil
	}
	return taken
}

// checkClaim says what the server would, before anything is asked of it.
func checkClaim(name, value string) string {
	var problems []string
	for _, problem := range validation.ValidateClusterClaimName(name, false) {
		problems = append(problems, fmt.Sprintf("metadata.name: %q is no name of a ClusterClaim: %s", name, problem))
	}
	made := &multicluster.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: multicluster.ClusterClaimSpec{Value: value}}
	for _, problem := range validation.ValidateClusterClaim(made) {
		problems = append(problems, problem.Error())
	}
	if len(problems) > 0 && name == v1alpha1.ClaimID {
		problems = append(problems, "give the cluster an id that is a DNS label of at most 63 characters, and set "+PropertyID+" to it")
	}
	return strings.Join(problems, "; ")
}

// valueOf returns spec.value of either kind.
func valueOf(object *unstructured.Unstructured) string {
	value, _, _ := unstructured.NestedString(object.Object, "spec", "value")
	return value
}
