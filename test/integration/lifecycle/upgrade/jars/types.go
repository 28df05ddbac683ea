// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package jars

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AlphaJar is the Jar of v1alpha1.
type AlphaJar struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AlphaJarSpec `json:"spec"`
}

// AlphaJarSpec has the size in words.
type AlphaJarSpec struct {
	Size string `json:"size"`
}

// AlphaJarList is a list of them.
type AlphaJarList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AlphaJar `json:"items"`
}

// BetaJar is the Jar of v1beta1.
type BetaJar struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BetaJarSpec `json:"spec"`
}

// BetaJarSpec has the size in millilitres.
type BetaJarSpec struct {
	Size int32 `json:"size"`
}

// BetaJarList is a list of them.
type BetaJarList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BetaJar `json:"items"`
}

// LeftoverJar is the Jar of a version that the release does not know, or no more: its spec is kept as it is.
type LeftoverJar struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec runtime.RawExtension `json:"spec"`
}

// LeftoverJarList is a list of them.
type LeftoverJarList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LeftoverJar `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (j *AlphaJar) DeepCopyObject() runtime.Object {
	out := *j
	j.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *AlphaJarList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = copied(l.Items, func(j *AlphaJar) *AlphaJar { return j.DeepCopyObject().(*AlphaJar) })
	return &out
}

// DeepCopyObject implements runtime.Object.
func (j *BetaJar) DeepCopyObject() runtime.Object {
	out := *j
	j.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *BetaJarList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = copied(l.Items, func(j *BetaJar) *BetaJar { return j.DeepCopyObject().(*BetaJar) })
	return &out
}

// DeepCopyObject implements runtime.Object.
func (j *LeftoverJar) DeepCopyObject() runtime.Object {
	out := *j
	j.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec = runtime.RawExtension{Raw: bytes.Clone(j.Spec.Raw)}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *LeftoverJarList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = copied(l.Items, func(j *LeftoverJar) *LeftoverJar { return j.DeepCopyObject().(*LeftoverJar) })
	return &out
}

func copied[T any](items []T, deepCopy func(*T) *T) []T {
	if items == nil {
		return nil
	}
	out := make([]T, 0, len(items))
	for i := range items {
		out = append(out, *deepCopy(&items[i]))
	}
	return out
}
