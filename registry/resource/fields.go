// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
)

// newObject returns an empty object; T is a pointer to a struct.
func newObject[T Object]() T { return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T) }

// statusOf returns the settable Status field of an object, and false if its type has none.
func statusOf(obj Object) (reflect.Value, bool) {
	status := reflect.ValueOf(obj).Elem().FieldByName("Status")
	return status, status.IsValid()
}

func hasStatus(obj Object) bool {
	_, ok := statusOf(obj)
	return ok
}

func clearStatus(obj Object) {
	if status, ok := statusOf(obj); ok {
		status.SetZero()
	}
}

func copyStatus(into, from Object) {
	if status, ok := statusOf(into); ok {
		source, _ := statusOf(from)
		status.Set(source)
	}
}

func copyMetadata(into, from Object) {
	reflect.ValueOf(into).Elem().FieldByName("ObjectMeta").Set(reflect.ValueOf(from).Elem().FieldByName("ObjectMeta"))
}

// desiredStateEqual compares everything but type, metadata and status: what generation counts.
func desiredStateEqual(a, b Object) bool {
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		switch va.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
			continue
		}
		if !equality.Semantic.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// assign makes *into a shallow copy of *from.
func assign(into, from Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from).Elem())
}
