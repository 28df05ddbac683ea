// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Feature says, for one feature gate, whether the feature is on, who uses it, and whether it is safe to turn it off or
// to upgrade. Its name is the gate's own name, such as NodeSwap: a letter followed by letters, digits, '.', '_' or '-',
// at most 253 characters, upper and lower case as people write it. The namespace tells whose feature it is:
// kube-system holds the features of Kubernetes itself, annex-system those of Annex, and third parties use their own.
//
// Features are announced by the servers and components that have the gate; people rarely create one. To turn a
// feature on or off, set spec.desired of a Feature whose status.dynamic is true, and wait for status.state.
type Feature struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. metadata.name is the name of the feature gate.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// spec is what the clients of the API wish for this feature. It may be empty: the feature then follows the
	// command line and the defaults of its components.
	// +optional
	Spec FeatureSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`

	// status is what is known about this feature. It is written by the system through the status subresource, never
	// by people.
	// +optional
	Status FeatureStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FeatureList is a list of Features.
type FeatureList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// items are the Features.
	Items []Feature `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// FeatureSpec is what the clients of the API wish for a feature.
type FeatureSpec struct {
	// desired is the value that this feature shall have: Enabled or Disabled. It may be set or changed only while
	// status.dynamic is true, which the server that owns the feature decides with its flag --dynamic-features.
	// While status.dynamic is false a stored value is ignored and may only be cleared. Empty means no wish: the
	// feature follows the command line and the default of its component.
	// +optional
	Desired Value `json:"desired,omitempty" protobuf:"bytes,1,opt,name=desired,casttype=Value"`

	// canary lets part of the reporters see the feature Enabled before the rest does. While it runs, status.state is
	// TurningOn and the first of status.tasks is Canary; tasks that change stored data wait until it has ended. To
	// begin one, set canary before or together with desired: Enabled. Raise percent step by step; 100, or removing
	// canary, ends the canary and turns the feature on for everyone. To go back, set desired: Disabled. Absent means
	// that everyone sees the wish at once. Without a wish in desired canary has no effect.
	//
	// This is an alpha field. A write that sets it is refused while the feature FeatureCanary is off: without it, the
	// wish would reach everyone.
	// +featureGate=FeatureCanary,whenOff=Reject
	// +optional
	Canary *Canary `json:"canary,omitempty" protobuf:"bytes,2,opt,name=canary"`
}

// Canary is how many see the new value of a feature before the rest does.
type Canary struct {
	// percent is how many of a hundred reporters see the new value, from 0 (nobody; absent means the same) to 100
	// (everyone, which ends the canary). Whether a reporter is among them depends on its instance alone: those that
	// see the new value at 10 still see it at 20.
	// +optional
	Percent int32 `json:"percent" protobuf:"varint,1,opt,name=percent"`
}

// FeatureStatus is what is known about a feature.
type FeatureStatus struct {
	// observedGeneration is the metadata.generation that this status was written for. A smaller number than
	// metadata.generation means that the latest change of spec has not been seen yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`

	// stability is how mature the feature is: PreAlpha, Alpha, Beta, GA or Deprecated. Empty until it is announced.
	// +optional
	Stability Stability `json:"stability,omitempty" protobuf:"bytes,2,opt,name=stability,casttype=Stability"`

	// locked tells that the feature's value can no longer be changed in the announced version.
	// +optional
	Locked bool `json:"locked,omitempty" protobuf:"varint,3,opt,name=locked"`

	// dynamic tells that spec.desired may be used to turn the feature on and off while its server runs. The server
	// that owns the feature sets it, from its flag --dynamic-features.
	// +optional
	Dynamic bool `json:"dynamic,omitempty" protobuf:"varint,4,opt,name=dynamic"`

	// version is the version of the component that announced this feature, such as v1.37.1; of several, the highest.
	// While the tasks of a change of version are left, it is the version before.
	// +optional
	Version string `json:"version,omitempty" protobuf:"bytes,5,opt,name=version"`

	// component is the name of the component that announced the feature, such as annex-apiserver: version is one of
	// its versions. Empty until it is announced.
	// +optional
	Component string `json:"component,omitempty" protobuf:"bytes,15,opt,name=component"`

	// default is the value that the feature has when nobody sets it: Enabled or Disabled. Empty if it is not known,
	// as for features that are only observed from outside.
	// +optional
	Default Value `json:"default,omitempty" protobuf:"bytes,6,opt,name=default,casttype=Value"`

	// configured is the value that the servers of this feature are configured to have: Enabled or Disabled. Empty
	// until it is announced.
	// +optional
	Configured Value `json:"configured,omitempty" protobuf:"bytes,7,opt,name=configured,casttype=Value"`

	// source tells where the configured value comes from: Default (nobody set it), CommandLine (a flag of the
	// server), Dynamic (spec.desired) or Observed (read from a component that does not report by itself).
	// +optional
	Source Source `json:"source,omitempty" protobuf:"bytes,8,opt,name=source,casttype=Source"`

	// state is where the feature stands: On, Off, or on its way with TurningOn or TurningOff. On its way, tasks says
	// what is left to be done. Empty until the feature is announced.
	// +optional
	State State `json:"state,omitempty" protobuf:"bytes,9,opt,name=state,casttype=State"`

	// tasks is what is left to be done before the state is On or Off, in the order in which it is done. The first
	// task is the one at work. Empty when the state is On or Off.
	// +optional
	// +listType=atomic
	Tasks []Task `json:"tasks,omitempty" protobuf:"bytes,10,rep,name=tasks"`

	// uses tells which versions of which components see the feature as Enabled or Disabled, one entry for each
	// component, version and value; at most 64.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +listMapKey=version
	// +listMapKey=value
	Uses []Use `json:"uses,omitempty" protobuf:"bytes,11,rep,name=uses"`

	// useEvaluationTime is when the server will read the answers to its question who uses the feature. Components
	// that disagree with the state must have reported by then. Empty when no question is open.
	// +optional
	UseEvaluationTime *metav1.Time `json:"useEvaluationTime,omitempty" protobuf:"bytes,12,opt,name=useEvaluationTime"`

	// danglingReferences tells how many stored objects use the feature although it is Off. They are counted when
	// the state becomes TurningOff and Off, and while a task waits for their removal. Absent if never counted.
	// +optional
	DanglingReferences *DanglingReferences `json:"danglingReferences,omitempty" protobuf:"bytes,13,opt,name=danglingReferences"`

	// conditions are the latest verdicts on the feature. Settled: the state is what is wished and no task is left.
	// Dangling: stored objects use the feature although it is Off. Conflict: servers or components disagree about
	// its value; the message names them. Available: some live server announces it. SafeToUpgrade and
	// SafeToDowngrade: False while the feature is in transition, in conflict or dangling, and while an Alpha or a
	// Deprecated feature is On; Unknown for features that are only observed.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type" protobuf:"bytes,14,rep,name=conditions"`
}

// Task is one step on the way to On or Off.
type Task struct {
	// name says what the task does, such as WaitForUses or ClearField.
	// +required
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`

	// state is Pending (not begun), Running, Failed (it will be tried again) or AwaitingConfirmation (it changes
	// stored data and waits until the value is set by flag or by spec.desired).
	// +required
	State TaskState `json:"state" protobuf:"bytes,2,opt,name=state,casttype=TaskState"`

	// done is how much of total has been done, counted in the things the task works on, such as objects.
	// +optional
	Done int64 `json:"done,omitempty" protobuf:"varint,3,opt,name=done"`

	// total is how much there is to do, in the same measure as done. Absent if that is not known (yet).
	// +optional
	Total *int64 `json:"total,omitempty" protobuf:"varint,4,opt,name=total"`

	// message says for people what the task is doing, or what it waits for.
	// +optional
	Message string `json:"message,omitempty" protobuf:"bytes,5,opt,name=message"`

	// attempts is how often the task has been tried.
	// +optional
	Attempts int32 `json:"attempts,omitempty" protobuf:"varint,6,opt,name=attempts"`

	// lastAttemptTime is when the task was last tried. Absent if it never was.
	// +optional
	LastAttemptTime *metav1.Time `json:"lastAttemptTime,omitempty" protobuf:"bytes,7,opt,name=lastAttemptTime"`
}

// Use tells that one version of one component sees a feature as Enabled or Disabled.
type Use struct {
	// component is the name of the component, such as kube-scheduler; at most 63 characters.
	// +required
	Component string `json:"component" protobuf:"bytes,1,opt,name=component"`

	// version is the component's version, such as v1.37.1; at most 64 characters.
	// +required
	Version string `json:"version" protobuf:"bytes,2,opt,name=version"`

	// value is how the component sees the feature: Enabled or Disabled.
	// +required
	Value Value `json:"value" protobuf:"bytes,3,opt,name=value,casttype=Value"`

	// reporter is one instance of the component that reported this, as an example.
	// +optional
	Reporter string `json:"reporter,omitempty" protobuf:"bytes,4,opt,name=reporter"`

	// reportTime is when this was first reported. Absent if that is not known.
	// +optional
	ReportTime *metav1.Time `json:"reportTime,omitempty" protobuf:"bytes,5,opt,name=reportTime"`
}

// DanglingReferences tells about stored objects that use a feature that is Off.
type DanglingReferences struct {
	// count is how many objects use the feature.
	// +required
	Count int64 `json:"count" protobuf:"varint,1,opt,name=count"`

	// examples are some of these objects, at most 10.
	// +optional
	// +listType=atomic
	Examples []ObjectReference `json:"examples,omitempty" protobuf:"bytes,2,rep,name=examples"`
}

// ObjectReference names a stored object.
type ObjectReference struct {
	// group is the API group of the object's resource. Empty means the core group.
	// +optional
	Group string `json:"group,omitempty" protobuf:"bytes,1,opt,name=group"`

	// resource is the object's resource in the plural, such as nodeballoons.
	// +required
	Resource string `json:"resource" protobuf:"bytes,2,opt,name=resource"`

	// namespace is the object's namespace. Empty for objects that are not in a namespace.
	// +optional
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,3,opt,name=namespace"`

	// name is the object's name.
	// +required
	Name string `json:"name" protobuf:"bytes,4,opt,name=name"`
}
