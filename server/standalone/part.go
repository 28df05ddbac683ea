// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"fmt"
)

// part is something that runs until it is told to stop.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// start runs the part apart from the cancellation of the context, so that parts can be stopped one after the other.
func start(ctx context.Context, name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = run(ctx)
	}()
	return p
}

// stop tells the part to end and waits until it has.
func (p *part) stop() error {
	p.cancel()
	<-p.done
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.name, p.err)
	}
	return nil
}

// died says why a part that nobody stopped has ended.
func (p *part) died() error {
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.name, p.err)
	}
	return fmt.Errorf("%s ended by itself", p.name)
}
