// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import "context"

// Permission is what a feature permits to those who want to use it.
type Permission string

const (
	// Off permits nothing.
	Off Permission = "Off"
	// TurningOff permits no new use, while what exists of it is being removed.
	TurningOff Permission = "TurningOff"
	// Unconfirmed permits no new use, and keeps what exists of it until somebody confirms that it may be removed.
	Unconfirmed Permission = "TurningOff, but not confirmed"
	// Permitted permits use.
	Permitted Permission = "Permitted"
)

// Permit is a feature's permission, and where that is written.
type Permit struct {
	Permission
	// Feature is what users know the feature's object by: namespace/name.
	Feature string
	// Key and Revision are the object's key in etcd, in full, and the mod revision at which it was read; 0 if it was absent.
	Key      string
	Revision int64
}

// Permits tells what features permit. Each of its answers can be bound to a write, which then commits only if the feature has
// not changed meanwhile.
type Permits interface {
	// Read asks the store, with quorum.
	Read(ctx context.Context, gate string) (Permit, error)
	// Recall answers without asking the store where that is possible. The answer may be out of date.
	Recall(ctx context.Context, gate string) (Permit, error)
}
