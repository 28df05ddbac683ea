// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import "context"

// Fence makes the writes of a request depend on a key of the store.
type Fence struct {
	// Key must hold Value in the transaction of every write, else nothing is written.
	Key, Value string
	// Refused returns what the client is told then; current is what the key holds, nil if it is not there. It must be an
	// API status error as it is, not a wrapped one. It is called once for every write that was refused.
	Refused func(current *string) error
}

type fenceKey struct{}

// WithFence puts all writes of the context under the fence.
func WithFence(ctx context.Context, fence Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, &fence)
}

func fenceFrom(ctx context.Context) *Fence {
	f, _ := ctx.Value(fenceKey{}).(*Fence)
	return f
}
