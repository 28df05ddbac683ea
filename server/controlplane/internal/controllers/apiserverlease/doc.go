// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserverlease lets clients see which replicas of a server there are. Each replica renews a Lease in kube-system that bears its identity,
// with the label apiserver.kubernetes.io/identity and the name of the server as its value. Leases of replicas that are no more are
// collected when they have run out.
package apiserverlease

import "time"

const (
	// Label is on the Leases. Its value tells servers of a kind from others.
	Label = "apiserver.kubernetes.io/identity"

	// duration, renewal and collection are a kube-apiserver's, but that expired Leases are looked for more often.
	duration   = time.Hour
	renewal    = 10 * time.Second
	collection = 10 * time.Minute
)
