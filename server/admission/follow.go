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
	// unknownRetry is how soon a host is asked again that has not said which kinds there are. It is asked more often at first, since it
	// may start together with the server.
	unknownRetry = 2 * time.Second
	// kindsRecheck is how soon it is asked again when it has, in case it was upgraded.
	kindsRecheck = time.Minute
	// resync is how often informers repeat what they know.
	resync = 10 * time.Minute
)

// Run follows the configurations until the context ends. Plugins keep acting on what is known then.
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
	for _, plugin := range c.configured {
		running.Go(func() { c.follow(ctx, plugin) })
	}
}

// detect follows the kinds that there are, as they come and go.
func (c *Chain) detect(ctx context.Context) {
	followed := map[*configured]func(){}
	defer func() {
		for _, stop := range followed {
			stop()
		}
	}()
	retry := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.5, Steps: 20, Cap: unknownRetry}
	for {
		again := kindsRecheck
		if kinds, err := c.server.Kinds(ctx); err == nil {
			c.followWhatIs(ctx, kinds, followed)
		} else {
			again = retry.Step()
			klog.FromContext(ctx).V(2).Info("It is not known which webhooks and policies can be configured; asking again", "reason", err)
			for _, plugin := range c.configured {
				plugin.hindered(fmt.Errorf("ask which kinds there are: %w", err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// followWhatIs has each plugin followed that has its kinds, and others act no more.
func (c *Chain) followWhatIs(ctx context.Context, kinds sets.Set[string], followed map[*configured]func()) {
	for _, plugin := range c.configured {
		stop, is := followed[plugin]
		switch has := kinds.HasAll(plugin.kinds...); {
		case has && is, !has && plugin.lacking:
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
			klog.FromContext(ctx).Info("An admission plugin cannot be configured; going on without it until it can", "plugin", plugin.name, "kinds", plugin.kinds)
			plugin.become(nil)
		}
		plugin.lacking = !kinds.HasAll(plugin.kinds...)
	}
}

// follow has the plugin act as soon as there is something for it to do, and returns when the context ends.
func (c *Chain) follow(ctx context.Context, plugin *configured) {
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
			plugin.hindered(err)
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		})
		synced = append(synced, informer.HasSyncedChecker())
	}
	appeared := make(chan struct{}, 1)
	look := func(object any) {
		if c.groups.concern(object) {
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
		plugin.become(nil)
		select {
		case <-appeared:
		case <-ctx.Done():
			return
		}
	}
	c.act(ctx, plugin, factory)
}

// act has the plugin act until the context ends. It is made anew when what it knows of schemas is out of date.
func (c *Chain) act(ctx context.Context, plugin *configured, factory informers.SharedInformerFactory) {
	last := func() {}
	defer func() { last() }()
	for ctx.Err() == nil {
		acting, stop := context.WithCancel(ctx)
		schemas := newAnnounced(c.server.Schemas)
		if made, err := c.awaken(acting, plugin, c.newSources(factory), schemas); err == nil {
			plugin.become(made)
		} else if ctx.Err() == nil {
			// Its configuration was checked at the start, so this does not go away by itself.
			klog.FromContext(ctx).Error(err, "An admission plugin cannot be made, and all that it would see is refused", "plugin", plugin.name)
			plugin.become(broken{plugin.Handler, apierrors.NewInternalError(err)})
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

// awaken makes a plugin that is ready to act.
func (c *Chain) awaken(ctx context.Context, plugin *configured, informers *sources, schemas *announced) (admission.Interface, error) {
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
		case <-schemas.known:
		case <-ctx.Done():
		}
	}
	for waits, ok := made.(interface{ WaitForReady() bool }); ok && ctx.Err() == nil; {
		ok = !waits.WaitForReady()
	}
	return made, ctx.Err()
}

// broken refuses everything.
type broken struct {
	*admission.Handler
	err error
}

var (
	_           admission.MutationInterface   = broken{}
	_           admission.ValidationInterface = broken{}
	errNotAsked                               = errors.New("nobody has been asked for them")
)

// Admit implements admission.MutationInterface.
func (b broken) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return b.err
}

// Validate implements admission.ValidationInterface.
func (b broken) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return b.err
}
