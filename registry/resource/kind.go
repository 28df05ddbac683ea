// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/gatedfield"
)

// Object is what a Kind stores: a pointer to a struct with TypeMeta and ObjectMeta.
type Object interface {
	metav1.Object
	runtime.Object
}

// Scope tells whether objects of a kind live in namespaces.
type Scope int

const (
	// Namespaced kinds have objects in namespaces; it is the zero value.
	Namespaced Scope = iota
	// Cluster kinds have objects that belong to no namespace.
	Cluster
)

// Generations tells whether changes of a kind's desired state are counted.
type Generations int

const (
	// GenerationsWithStatus counts where the type has a field Status; it is the zero value.
	GenerationsWithStatus Generations = iota
	// CountGenerations counts, whatever the type has.
	CountGenerations
	// NoGenerations does not count.
	NoGenerations
)

// Age tells where in kubectl's table the age of objects stands.
type Age int

const (
	// AgeAfterColumns is before the columns of -o wide; it is the zero value.
	AgeAfterColumns Age = iota
	// AgeBeforeColumns is after the name.
	AgeBeforeColumns
	// NoAge leaves it out.
	NoAge
)

// Kind declares how one API kind is validated, shown and stored. The zero value of an optional field means "nothing special".
//
// A type with a field Status gets the subresource /status and generations; a type without one gets neither, unless Generations
// says otherwise.
type Kind[T Object] struct {
	// Plural and Singular are the resource's names in paths and for kubectl, in lower case.
	Plural, Singular string
	// ShortNames and Categories are further names kubectl accepts.
	ShortNames, Categories []string
	Scope                  Scope

	// NewList returns an empty list of hub objects.
	NewList func() runtime.Object

	// Default completes an object that is read from a request or from storage, for kinds that are listed by Served.
	Default func(obj T)
	// ValidateName judges metadata.name, or with prefix set metadata.generateName. Nil means a DNS-1123 subdomain.
	ValidateName func(name string, prefix bool) []string
	// QualifiedFinalizers refuses finalizers without a domain, but for Kubernetes' own, as most of Kubernetes' kinds do.
	QualifiedFinalizers bool
	// PrepareForCreate and PrepareForUpdate normalize an object before it is validated.
	PrepareForCreate func(ctx context.Context, obj T)
	PrepareForUpdate func(ctx context.Context, obj, old T)
	// Validate judges an object on create and ValidateUpdate on update; both leave out metadata, which is judged for them.
	Validate       func(obj T) field.ErrorList
	ValidateUpdate func(obj, old T) field.ErrorList
	// ValidateStatusUpdate judges a write to /status.
	ValidateStatusUpdate func(obj, old T) field.ErrorList
	// MetadataWithStatus has /status write metadata, too, as it is with Kubernetes' older kinds.
	MetadataWithStatus bool
	// Authorize judges what the user of a request asks for with an object; old is none on create. It runs when all else is valid.
	Authorize func(ctx context.Context, obj, old T) field.ErrorList
	// Warnings are shown to the client of a create (old is nil) or an update that passed validation.
	Warnings func(ctx context.Context, obj, old T) []string

	// CreateOnly are fields of the root that PrepareForUpdate keeps as they are stored; server-side apply owns none of them.
	CreateOnly []string
	// Generations tells whether changes are counted in metadata.generation.
	Generations Generations
	// Remains tells that an object that is being deleted stays, whatever finalizers its metadata has. Nil means that only they count.
	Remains func(obj T) bool
	// ReturnDeleted answers the deletion of an object with the object, not with a status, as it is with Kubernetes' older kinds.
	ReturnDeleted bool
	// TTL is for how many seconds an object is kept after a write; 0 means for ever. Nil means that all are kept.
	TTL func(obj T) uint64

	// Rules tie the object to others of its kind and hold under concurrency; see the package comment.
	Rules Rules[T]
	// Companion is a second key that is written with the object; see the package comment. Nil means none.
	Companion *Companion[T]

	// GatedFields are the fields that may be used only while a feature permits it. Those of other kinds are ignored, so that a kind
	// can name the whole table of its package. Gate is the feature that permits the kind itself; empty means that it needs none.
	GatedFields []gatedfield.Field
	Gate        string

	// Columns stand after NAME in kubectl's table.
	Columns []Column[T]
	// Age tells where AGE stands.
	Age Age
	// Order compares two objects of kubectl's table. Nil leaves lists in the order of their keys.
	Order func(a, b T) int
	// SelectableFields are the field selectors beyond metadata.name and metadata.namespace.
	SelectableFields map[string]func(obj T) string
	// Subresources are endpoints beyond /status that write a part of the object.
	Subresources []Subresource[T]

	// CreateOnUpdate lets a PUT create an object that does not exist; server-side apply always may.
	CreateOnUpdate bool
	// UnconditionalUpdate accepts a PUT without resourceVersion, which overwrites whatever is stored.
	UnconditionalUpdate bool
}

// Column is one column of kubectl's table.
type Column[T any] struct {
	Name, Description string
	// Type is the OpenAPI type of the cell; empty means string.
	Type string
	// Priority 0 is always shown, 1 with -o wide.
	Priority int32
	// Of returns the cell; nil is shown as empty.
	Of func(obj T) any
}

// Subresource is an endpoint that reads the whole object and writes a part of it.
type Subresource[T any] struct {
	Name string
	// Fields are the paths the endpoint writes, each from the root: {"spec", "nodeSize"}. Server-side apply owns no others.
	Fields [][]string
	// Metadata has the endpoint write labels, annotations, owners and finalizers, too.
	Metadata bool
	// Except are paths below Fields that server-side apply owns nothing of either.
	Except [][]string
	// Take copies the fields of the endpoint from the request's object.
	Take func(into, from T)
	// Validate judges the object that would be stored. Nil means the kind's ValidateUpdate.
	Validate func(obj, old T) field.ErrorList
}

// Rules decide with the help of other objects of the same kind whether a write may pass. Each runs inside the guard; see
// the package comment. An error is returned to the client as it is, so it should be an API status error that names the fix.
type Rules[T any] struct {
	Create func(ctx context.Context, peers Peers[T], obj T) error
	Update func(ctx context.Context, peers Peers[T], obj, old T) error
	Delete func(ctx context.Context, peers Peers[T], obj T) error
}

// Companion is a key of the store that follows an object: every transaction that writes the object leaves the key at its value,
// and touches it only if it held another one; the transaction that removes the object removes the key. It is plain text, also
// where objects are encrypted. A kind with a companion has no subresources.
type Companion[T any] struct {
	// Key is where in etcd it is, in full; namespace is empty for cluster-scoped kinds.
	Key func(namespace, name string) string
	// Value is what it holds for an object.
	Value func(obj T) string
}

// Peers reads other objects of the kind, in the same namespace if it has one, with quorum, and binds the write to what was read.
type Peers[T any] interface {
	// Get returns the object, or false if there is none. The write at hand commits only if that is still so.
	Get(ctx context.Context, name string) (T, bool, error)
}

func (k Kind[T]) countsGenerations() bool {
	return k.Generations == CountGenerations || k.Generations == GenerationsWithStatus && hasStatus(newObject[T]())
}

func (r Rules[T]) empty() bool {
	return r.Create == nil && r.Update == nil && r.Delete == nil
}
