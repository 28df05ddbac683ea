// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Widget has fields that may be used only while features permit it.
type Widget struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// spec is what the widget shall be.
	// +optional
	Spec WidgetSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`

	// status is what the widget is.
	// +optional
	Status WidgetStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WidgetList is a list of Widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// items are the Widgets.
	Items []Widget `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// WidgetSpec is what a widget shall be.
type WidgetSpec struct {
	// width is how wide the widget is, in millimetres.
	// +optional
	Width int32 `json:"width,omitempty" protobuf:"varint,1,opt,name=width"`

	// color is the widget's colour. Absent means none.
	// +featureGate=WidgetColor
	// +optional
	Color *string `json:"color,omitempty" protobuf:"bytes,2,opt,name=color"`

	// parts are what the widget is made of.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=name
	Parts []Part `json:"parts,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,3,rep,name=parts"`

	// labelsByZone are what is written on the widget, by the zone where it is used.
	// +optional
	LabelsByZone map[string]Zone `json:"labelsByZone,omitempty" protobuf:"bytes,4,rep,name=labelsByZone"`
}

// Part is one piece of a widget.
type Part struct {
	// name is unique among the parts of a widget.
	// +required
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`

	// material is what the part is made of. Absent means that it is not known.
	// +featureGate=WidgetMaterial
	// +optional
	Material *string `json:"material,omitempty" protobuf:"bytes,2,opt,name=material"`

	// bolts hold the part. Absent means that it is glued.
	// +featureGate=WidgetBolts,whenOff=Reject
	// +optional
	// +listType=atomic
	Bolts []Bolt `json:"bolts,omitempty" protobuf:"bytes,3,rep,name=bolts"`
}

// Bolt holds a part; it is in gated fields only.
type Bolt struct {
	// length is in millimetres.
	// +optional
	Length int32 `json:"length,omitempty" protobuf:"varint,1,opt,name=length"`
}

// Zone is what is written on a widget for one zone.
type Zone struct {
	// label is the text.
	// +optional
	Label string `json:"label,omitempty" protobuf:"bytes,1,opt,name=label"`

	// note is a remark on the material. Absent means none.
	// +featureGate=WidgetMaterial
	// +optional
	Note *string `json:"note,omitempty" protobuf:"bytes,2,opt,name=note"`
}

// WidgetStatus is what a widget is.
type WidgetStatus struct {
	// summary says in words what the widget looks like. Absent means that nobody has looked.
	// +featureGate=WidgetColor
	// +optional
	Summary *string `json:"summary,omitempty" protobuf:"bytes,1,opt,name=summary"`

	// count is how often the widget was looked at.
	// +optional
	Count int32 `json:"count,omitempty" protobuf:"varint,2,opt,name=count"`
}
