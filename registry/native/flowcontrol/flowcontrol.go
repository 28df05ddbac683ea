// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flowcontrol serves FlowSchema and PriorityLevelConfiguration, by which this server and extension servers queue
// requests.
package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served and stored in.
var GroupVersion = flowcontrolv1.SchemeGroupVersion

// Types returns an empty object of every type of the group.
func Types() []runtime.Object {
	return []runtime.Object{
		&flowcontrolv1.FlowSchema{}, &flowcontrolv1.FlowSchemaList{},
		&flowcontrolv1.PriorityLevelConfiguration{}, &flowcontrolv1.PriorityLevelConfigurationList{},
	}
}

// Defaults returns how objects of the group are completed when they are read from a request or from storage.
func Defaults() map[runtime.Object]func(any) {
	return map[runtime.Object]func(any){
		&flowcontrolv1.FlowSchema{}: func(obj any) { defaultFlowSchema(obj.(*flowcontrolv1.FlowSchema)) },
		&flowcontrolv1.FlowSchemaList{}: func(obj any) {
			list := obj.(*flowcontrolv1.FlowSchemaList)
			for i := range list.Items {
				defaultFlowSchema(&list.Items[i])
			}
		},
		&flowcontrolv1.PriorityLevelConfiguration{}: func(obj any) { defaultPriorityLevel(obj.(*flowcontrolv1.PriorityLevelConfiguration)) },
		&flowcontrolv1.PriorityLevelConfigurationList{}: func(obj any) {
			list := obj.(*flowcontrolv1.PriorityLevelConfigurationList)
			for i := range list.Items {
				defaultPriorityLevel(&list.Items[i])
			}
		},
	}
}

// Install adds the kinds to their group.
func Install(group *resource.Group) error {
	if err := flowSchemas().Install(group); err != nil {
		return err
	}
	return priorityLevels().Install(group)
}

func defaultTo[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

func defaultPointer[T any](value **T, standard T) {
	if *value == nil {
		*value = &standard
	}
}
