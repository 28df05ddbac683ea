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

// syncTimeout limits how long a request waits for configurations that have not been read yet, as in kube-apiserver.
const syncTimeout = 10 * time.Second

// lazyPlugin is the place in the chain of a plugin that is configured through the API. The plugin is started with the first configuration.
type lazyPlugin struct {
	definition
	*admission.Handler

	// synced is closed by the first call of set. A nil plugin means that nothing is configured.
	synced      chan struct{}
	syncedOnce  sync.Once
	plugin      atomic.Pointer[admission.Interface]
	unavailable atomic.Pointer[error]
	// unsupported is set by Chain.detect if the server lacks the kinds.
	unsupported bool
}

func newLazyPlugin(d definition) *lazyPlugin {
	return &lazyPlugin{definition: d, Handler: admission.NewHandler(d.operations...), synced: make(chan struct{})}
}

// set activates the plugin; nil deactivates it.
func (p *lazyPlugin) set(plugin admission.Interface) {
	if plugin == nil {
		p.plugin.Store(nil)
	} else {
		p.plugin.Store(&plugin)
	}
	p.syncedOnce.Do(func() { close(p.synced) })
}

// markUnavailable sets the error that pending returns.
func (p *lazyPlugin) markUnavailable(err error) { p.unavailable.Store(&err) }

// pending returns an error until the configurations have been read.
func (p *lazyPlugin) pending() error {
	select {
	case <-p.synced:
		return nil
	default:
	}
	reason := error(errNotSynced)
	if obstacle := p.unavailable.Load(); obstacle != nil {
		reason = *obstacle
	}
	return fmt.Errorf("%v have not been read yet: %w", p.kinds, reason)
}

// current returns the plugin for the request, or nil if none is active.
func (p *lazyPlugin) current(ctx context.Context, request admission.Attributes) (admission.Interface, error) {
	if p.exempt(request) {
		return nil, nil
	}
	if err := p.await(ctx); err != nil {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf(
			"not yet ready to admit writes: %v; try again, and see /readyz if this goes on", err))
	}
	if plugin := p.plugin.Load(); plugin != nil {
		return *plugin, nil
	}
	return nil, nil
}

func (p *lazyPlugin) await(ctx context.Context) error {
	select {
	case <-p.synced:
		return nil
	default:
	}
	timeout := time.NewTimer(syncTimeout)
	defer timeout.Stop()
	select {
	case <-p.synced:
	case <-timeout.C:
	case <-ctx.Done():
	}
	return p.pending()
}

// mutating and validating run the plugin in the first or second phase of the chain.
type (
	mutating   struct{ *lazyPlugin }
	validating struct{ *lazyPlugin }
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
