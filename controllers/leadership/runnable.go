// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
)

// Runnable is a piece of work of one term. See the package comment for the rules it keeps.
type Runnable struct {
	// Name appears in logs, health details and goroutine labels.
	Name string
	// Run does the work until the context ends, and returns when all of it has ended. One that returns earlier, with an error or
	// without, ends its term: the group stops, releases its Lease and tries to acquire again after a pause.
	Run func(ctx context.Context) error
}

// InformerFactory is what the shared informer factories of client-go and of generated clients have in common.
type InformerFactory interface {
	Start(stop <-chan struct{})
	Shutdown()
}

// Informers runs the informers that others have asked the factory for, and waits for them to end. The factory must be of the
// term's client and made in the group's New: informers cannot be started twice.
func Informers(name string, factory InformerFactory) Runnable {
	return Runnable{Name: name, Run: func(ctx context.Context) error {
		factory.Start(ctx.Done())
		<-ctx.Done()
		factory.Shutdown()
		return nil
	}}
}
