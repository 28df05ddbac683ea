// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import "k8s.io/apimachinery/pkg/runtime"

// DeepCopyObject makes a kind of Gadget; nothing here is copied.
func (g *Gadget) DeepCopyObject() runtime.Object { return g }

// DeepCopyObject makes a kind of Crate; nothing here is copied.
func (c *Crate) DeepCopyObject() runtime.Object { return c }

// OpenAPIModelName returns the type's name in OpenAPI.
func (GadgetSpec) OpenAPIModelName() string { return "com.example.gadgets.v1beta1.GadgetSpec" }

// OpenAPIModelName returns the type's name in OpenAPI.
func (GadgetStatus) OpenAPIModelName() string { return "com.example.gadgets.v1beta1.GadgetStatus" }

// OpenAPIModelName returns the type's name in OpenAPI.
func (Part) OpenAPIModelName() string { return "com.example.gadgets.v1beta1.Part" }

// OpenAPIModelName returns the type's name in OpenAPI.
func (Bolt) OpenAPIModelName() string { return "com.example.gadgets.v1beta1.Bolt" }

// OpenAPIModelName returns the type's name in OpenAPI.
func (Zone) OpenAPIModelName() string { return "com.example.gadgets.v1beta1.Zone" }

// OpenAPIModelName returns the type's name in OpenAPI.
func (Tree) OpenAPIModelName() string { return "com.example.gadgets.v1beta1.Tree" }
