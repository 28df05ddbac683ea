// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import "k8s.io/apimachinery/pkg/runtime"

// DeepCopyObject makes a kind of Gadget; nothing here is copied.
func (g *Gadget) DeepCopyObject() runtime.Object { return g }

// DeepCopyObject makes a kind of Crate; nothing here is copied.
func (c *Crate) DeepCopyObject() runtime.Object { return c }
