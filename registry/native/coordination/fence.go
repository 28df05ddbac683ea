// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kube-annex/annex/apis/fencing"
)

// fences is where fence keys begin. They are outside of every server's objects.
const fences = "/annex.io/fences/"

// FenceKey is the key in etcd that follows a Lease from term to term. It holds fencing.Term.Value of the term under way, with no
// holder while nobody leads, in plain text; it is written in the transactions that change the Lease's holder or transitions, not
// by renewals, and it is gone when the Lease is.
func FenceKey(namespace, name string) string { return fences + namespace + "/" + name }

func fenceValue(lease *coordinationv1.Lease) string { return fencing.Current(lease).Value() }
