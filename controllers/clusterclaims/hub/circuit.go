// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"errors"
	"sync"
	"time"
)

// coolDown is how long a hub that did not answer is not asked again.
const coolDown = 3 * time.Second

// circuit keeps requests from waiting one after the other for a hub that is away: for a while after one has waited in vain the
// others are told at once, and then one at a time finds out.
type circuit struct {
	now func() time.Time

	mu     sync.Mutex
	closed time.Time // before then nobody asks
	away   error
}

// enter returns why the hub is not to be asked now.
func (c *circuit) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away == nil {
		return nil
	}
	now := c.now()
	if now.Before(c.closed) {
		return c.away
	}
	c.closed = now.Add(callTimeout)
	return nil
}

// leave notes what came of asking.
func (c *circuit) leave(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if away := (*AwayError)(nil); errors.As(err, &away) {
		c.away, c.closed = err, c.now().Add(coolDown)
		return
	}
	c.away = nil
}
