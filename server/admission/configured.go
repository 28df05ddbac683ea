// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
)

// patience is how long a request waits for configurations that have not been read yet, as it does in a kube-apiserver.
const patience = 10 * time.Second

// configured stands in the chain for a plugin that acts on what the API configures, and acts as it once there is something to do.
type configured struct {
	definition
	*admission.Handler

	// known is closed when it is known for the first time whether there is something to do, and plugin does that, if it is not nil.
	known    chan struct{}
	settle   sync.Once
	plugin   atomic.Pointer[admission.Interface]
	obstacle atomic.Pointer[error]
	// lacking is Chain.detect's: the kinds are known not to be there.
	lacking bool
}

func newConfigured(d definition) *configured {
	return &configured{definition: d, Handler: admission.NewHandler(d.operations...), known: make(chan struct{})}
}

// become has requests pass through the plugin from now on, or past it if it is nil.
func (c *configured) become(plugin admission.Interface) {
	if plugin == nil {
		c.plugin.Store(nil)
	} else {
		c.plugin.Store(&plugin)
	}
	c.settle.Do(func() { close(c.known) })
}

// hindered remembers why the configurations are not known yet.
func (c *configured) hindered(err error) { c.obstacle.Store(&err) }

// pending is an error as long as the configurations are not known.
func (c *configured) pending() error {
	select {
	case <-c.known:
		return nil
	default:
	}
	reason := error(errNotAsked)
	if obstacle := c.obstacle.Load(); obstacle != nil {
		reason = *obstacle
	}
	return fmt.Errorf("%v have not been read yet: %w", c.kinds, reason)
}

// current returns the plugin that the request has to pass, or nil.
func (c *configured) current(ctx context.Context, request admission.Attributes) (admission.Interface, error) {
	if c.exempt(request) {
		return nil, nil
	}
	if err := c.await(ctx); err != nil {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf(
			"not yet ready to admit writes: %v; try again, and see /readyz if this goes on", err))
	}
	if plugin := c.plugin.Load(); plugin != nil {
		return *plugin, nil
	}
	return nil, nil
}

func (c *configured) await(ctx context.Context) error {
	select {
	case <-c.known:
		return nil
	default:
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-c.known:
	case <-timeout.C:
	case <-ctx.Done():
	}
	return c.pending()
}

// mutating and validating are what the chain asks; which of them a plugin is says when it runs.
type (
	mutating   struct{ *configured }
	validating struct{ *configured }
)

var (
	_ admission.MutationInterface   = mutating{}
	_ admission.ValidationInterface = validating{}
)

// Admit implements admission.MutationInterface.
func (m mutating) Admit(ctx context.Context, request admission.Attributes, objects admission.ObjectInterfaces) error {
	plugin, err := m.current(ctx, request)
	if mutates, ok := plugin.(admission.MutationInterface); ok && err == nil {
		return mutates.Admit(ctx, request, objects)
	}
	return err
}

// Validate implements admission.ValidationInterface.
func (v validating) Validate(ctx context.Context, request admission.Attributes, objects admission.ObjectInterfaces) error {
	plugin, err := v.current(ctx, request)
	if validates, ok := plugin.(admission.ValidationInterface); ok && err == nil {
		return validates.Validate(ctx, request, objects)
	}
	return err
}
