// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// maxDetectRetry is the longest interval between failed attempts to read the host's kinds. The first ones are shorter, since the host
	// may start together with the server.
	maxDetectRetry = 2 * time.Second
	// redetectInterval is the interval after a successful one; the host may be upgraded.
	redetectInterval = time.Minute
	// resync is the resync period of the informers.
	resync = 10 * time.Minute
)

// Run follows the configurations until the context ends. Active plugins stay active.
func (c *Chain) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	if c.empty != nil {
		running.Go(func() { c.empty.RunWithContext(ctx) })
	}
	if c.server.Kinds != nil {
		c.detect(ctx)
		return
	}
	for _, plugin := range c.lazyPlugins {
		running.Go(func() { c.follow(ctx, plugin) })
	}
}

// detect follows the kinds that the host serves.
func (c *Chain) detect(ctx context.Context) {
	followed := map[*lazyPlugin]func(){}
	defer func() {
		for _, stop := range followed {
			stop()
		}
	}()
	retry := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.5, Steps: 20, Cap: maxDetectRetry}
	for {
		again := redetectInterval
		if kinds, err := c.server.Kinds(ctx); err == nil {
			c.followKinds(ctx, kinds, followed)
		} else {
			again = retry.Step()
			klog.FromContext(ctx).V(2).Info("Could not read the kinds of webhooks and policies; retrying", "reason", err)
			for _, plugin := range c.lazyPlugins {
				plugin.markUnavailable(fmt.Errorf("read the kinds: %w", err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// followKinds follows the plugins whose kinds exist, and deactivates the others.
func (c *Chain) followKinds(ctx context.Context, kinds sets.Set[string], followed map[*lazyPlugin]func()) {
	for _, plugin := range c.lazyPlugins {
		stop, is := followed[plugin]
		switch has := kinds.HasAll(plugin.kinds...); {
		case has && is, !has && plugin.unsupported:
			continue
		case has:
			following, cancel := context.WithCancel(ctx)
			ended := make(chan struct{})
			followed[plugin] = func() { cancel(); <-ended }
			go func() {
				defer close(ended)
				c.follow(following, plugin)
			}()
		default:
			if is {
				stop()
				delete(followed, plugin)
			}
			klog.FromContext(ctx).Info("The host lacks the kinds of an admission plugin; the plugin is inactive", "plugin", plugin.name, "kinds", plugin.kinds)
			plugin.set(nil)
		}
		plugin.unsupported = !kinds.HasAll(plugin.kinds...)
	}
}

// follow starts the plugin with the first relevant configuration, and returns when the context ends.
func (c *Chain) follow(ctx context.Context, plugin *lazyPlugin) {
	factory := c.newInformers()
	defer factory.Shutdown()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := []cache.SharedIndexInformer{plugin.configurations(factory)}
	if plugin.bindings != nil {
		read = append(read, plugin.bindings(factory))
	}
	synced := []cache.DoneChecker{c.core.V1().Namespaces().Informer().HasSyncedChecker()}
	for _, informer := range read {
		// This, and adding a handler, fails only with an informer that has ended.
		_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
			plugin.markUnavailable(err)
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		})
		synced = append(synced, informer.HasSyncedChecker())
	}
	appeared := make(chan struct{}, 1)
	look := func(object any) {
		if c.groups.relevant(object) {
			select {
			case appeared <- struct{}{}:
			default:
			}
		}
	}
	handler, _ := read[0].AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, object any) { look(object) }})
	factory.StartWithContext(ctx)
	if !cache.WaitFor(ctx, "", append(synced, handler.HasSyncedChecker())...) {
		return
	}
	select {
	case <-appeared:
	default:
		plugin.set(nil)
		select {
		case <-appeared:
		case <-ctx.Done():
			return
		}
	}
	c.runPlugin(ctx, plugin, factory)
}

// runPlugin keeps the plugin active until the context ends. It restarts a plugin whose schemas are outdated.
func (c *Chain) runPlugin(ctx context.Context, plugin *lazyPlugin, factory informers.SharedInformerFactory) {
	last := func() {}
	defer func() { last() }()
	for ctx.Err() == nil {
		acting, stop := context.WithCancel(ctx)
		schemas := newSchemaClient(c.server.Schemas)
		if made, err := c.start(acting, plugin, c.newPluginInformers(factory), schemas); err == nil {
			plugin.set(made)
		} else if ctx.Err() == nil {
			// The configuration was checked at the start, so a retry would not help.
			klog.FromContext(ctx).Error(err, "Could not start an admission plugin; its requests are rejected", "plugin", plugin.name)
			plugin.set(failingPlugin{plugin.Handler, apierrors.NewInternalError(err)})
		}
		last()
		last = stop
		if plugin.name == MutatingAdmissionPolicy {
			schemas.waitOutdated(ctx)
		} else {
			<-ctx.Done()
		}
	}
}

// start returns a new plugin that is ready.
func (c *Chain) start(ctx context.Context, plugin *lazyPlugin, informers *pluginInformers, schemas *schemaClient) (admission.Interface, error) {
	configuration, err := c.configurations.ConfigFor(plugin.name)
	if err != nil {
		return nil, err
	}
	made, err := plugin.make(configuration)
	if err != nil {
		return nil, err
	}
	c.initializers(ctx.Done(), informers, schemas).Initialize(made)
	if err := admission.ValidateInitialization(made); err != nil {
		return nil, err
	}
	if plugin.name == MutatingAdmissionPolicy {
		select {
		case <-schemas.synced:
		case <-ctx.Done():
		}
	}
	for waits, ok := made.(interface{ WaitForReady() bool }); ok && ctx.Err() == nil; {
		ok = !waits.WaitForReady()
	}
	return made, ctx.Err()
}

// failingPlugin rejects all requests.
type failingPlugin struct {
	*admission.Handler
	err error
}

var (
	_            admission.MutationInterface   = failingPlugin{}
	_            admission.ValidationInterface = failingPlugin{}
	errNotSynced                               = errors.New("no request for them has been sent")
)

// Admit implements admission.MutationInterface.
func (b failingPlugin) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return b.err
}

// Validate implements admission.ValidationInterface.
func (b failingPlugin) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return b.err
}
