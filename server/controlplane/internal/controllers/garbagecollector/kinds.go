// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
)

const (
	// recheck is how often the kinds are asked for although nothing has been heard of a change.
	recheck = 30 * time.Second
	// afterChange is how soon they are asked for after one, and afterChangeAgain how much later once more: what is served follows
	// what is defined.
	afterChange      = 200 * time.Millisecond
	afterChangeAgain = 3 * time.Second
	// takenOver is for how long a kind without a definition has to be served to be another server's.
	takenOver = 10 * time.Second
)

// kind is how objects of a kind are reached.
type kind struct {
	resource   schema.GroupVersionResource
	namespaced bool
	// monitored reports whether objects can be listed, watched and deleted.
	monitored bool
	// former tells that the kind was served once, and is no more.
	former bool
}

// followKinds keeps a monitor for each kind until the context ends, and then ends all.
func (c *Controller) followKinds(ctx context.Context) {
	defer c.endMonitors()
	for {
		again := recheck
		if err := c.refreshKinds(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Not all kinds are known; trying again", "reason", err.Error())
			again = afterChangeAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		case <-c.changed:
			select {
			case <-ctx.Done():
				return
			case <-time.After(afterChange):
			}
			time.AfterFunc(afterChangeAgain, c.kindsChanged)
		}
	}
}

// kindsChanged has the kinds asked for soon.
func (c *Controller) kindsChanged() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// refreshKinds starts and ends monitors. The error tells of what could not be known; the rest is done.
func (c *Controller) refreshKinds(ctx context.Context) error {
	groups, lists, err := c.discovery.ServerGroupsAndResourcesWithContext(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return err
	}
	unknown := sets.New[string]()
	if partial != nil {
		for version := range partial.Groups {
			unknown.Insert(version.Group)
		}
	}
	found := kindsIn(groups, lists)
	ended, failure := c.takeKinds(ctx, found, unknown)
	// Not under the lock: monitors that end wait for their handlers, which take it.
	for _, m := range ended {
		m.end()
	}
	c.dropUndefined(ctx)
	return errors.Join(failure, err)
}

// takeKinds starts the monitors that are missing, and returns those that have to end. The monitor of a kind that is not served any more
// keeps what it knows. Groups that are unknown stay as they were.
func (c *Controller) takeKinds(ctx context.Context, found map[schema.GroupVersionKind]kind, unknown sets.Set[string]) (ended []*monitor, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := map[schema.GroupResource]kind{}
	for _, k := range found {
		if k.monitored {
			wanted[k.resource.GroupResource()] = k
		}
	}
	c.noteMissing(unknown)
	c.noteTakenOver(wanted)
	for resource, m := range c.monitors {
		k, ok := wanted[resource]
		if ok && k.resource == m.resource || m.away.Load() || unknown.Has(resource.Group) {
			continue
		}
		m.away.Store(true)
		ended = append(ended, m)
	}
	for resource, k := range wanted {
		last := c.monitors[resource]
		if last != nil && !last.away.Load() {
			continue
		}
		m, err := newMonitor(c.client, k, leadership.EventHandler(ctx, c.handler(resource)))
		if err != nil {
			failure = errors.Join(failure, err)
			continue
		}
		if m.previous = last; last != nil && !last.synced() && last.previous != nil {
			m.previous = last.previous
		}
		c.monitors[resource] = m
		m.start(ctx, c.takeOver)
	}
	for known, k := range c.kinds {
		if _, ok := found[known]; !ok {
			k.former = k.former || !unknown.Has(known.Group)
			found[known] = k
		}
	}
	c.kinds = found
	return ended, failure
}

// takeOver compares what a new monitor of a kind knows with what the previous one knew: nobody reports what changed between them.
func (c *Controller) takeOver(ctx context.Context, m *monitor) {
	cache.WaitForCacheSync(ctx.Done(), m.synced)
	c.mu.Lock()
	previous := m.previous
	if previous == nil || !m.synced() {
		c.mu.Unlock()
		return
	}
	m.previous = nil
	c.mu.Unlock()
	for _, last := range previous.informer.GetStore().List() {
		old := last.(*meta)
		if current := m.get(old.Namespace, old.Name); current != nil {
			c.changedFrom(m.resource.GroupResource(), old, current)
		} else {
			c.gone(old)
		}
	}
	c.lookAtBlocked()
}

// dropUndefined forgets the kinds that are not served any more whose definitions are known to be gone, and their objects with them.
func (c *Controller) dropUndefined(ctx context.Context) {
	c.mu.RLock()
	all := maps.Clone(c.monitors)
	c.mu.RUnlock()
	for resource, m := range all {
		if !m.away.Load() || c.isUndefined(ctx, resource) != nil {
			continue
		}
		c.mu.Lock()
		delete(c.monitors, resource)
		c.mu.Unlock()
		for _, last := range m.known() {
			c.gone(last)
		}
		c.lookAtBlocked()
	}
}

// noteMissing remembers since when there are groups of which nothing has ever been known.
func (c *Controller) noteMissing(unknown sets.Set[string]) {
	missing := unknown.Clone()
	for resource := range c.monitors {
		missing.Delete(resource.Group)
	}
	if missing.Len() == 0 {
		c.incomplete = time.Time{}
	} else if c.incomplete.IsZero() {
		c.incomplete = time.Now()
	}
}

// noteTakenOver forgets the definitions of kinds that go on to be served without them: another server has taken them over, which keeps
// what it has when it is registered no more.
func (c *Controller) noteTakenOver(served map[schema.GroupResource]kind) {
	m := c.monitors[definitions]
	if m == nil || !m.informer.HasSynced() {
		return
	}
	now := time.Now()
	for resource, since := range c.defined {
		if _, ok := served[resource]; !ok {
			continue
		}
		if without, known := servedWithout(since, now, m.get("", resource.String()) != nil); known {
			c.defined[resource] = without
		} else {
			delete(c.defined, resource)
		}
	}
}

// servedWithout returns since when a kind that is served has no definition, and whether it still counts as one that had it.
func servedWithout(since, now time.Time, defined bool) (_ time.Time, known bool) {
	switch {
	case defined:
		return time.Time{}, true
	case since.IsZero():
		return now, true
	}
	return since, now.Sub(since) <= takenOver
}

func (c *Controller) endMonitors() {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.monitors))
	c.mu.Unlock()
	for _, m := range all {
		m.end()
	}
}

// kindsIn maps every kind in every version to the resource in the version in which it is monitored, the first that its group prefers.
func kindsIn(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) map[schema.GroupVersionKind]kind {
	byVersion := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	chosen := map[schema.GroupResource]kind{}
	found := map[schema.GroupVersionKind]kind{}
	for _, group := range groups {
		for _, version := range preferred(group) {
			list := byVersion[version]
			parsed, err := schema.ParseGroupVersion(version)
			if list == nil || err != nil {
				continue
			}
			for _, resource := range list.APIResources {
				gvr := parsed.WithResource(resource.Name)
				if isSubresource(resource) || isEvent(gvr.GroupResource()) {
					continue
				}
				k, ok := chosen[gvr.GroupResource()]
				if !ok {
					k = kind{
						resource: gvr, namespaced: resource.Namespaced,
						monitored: hasVerbs(resource, "list", "watch", "delete"),
					}
					chosen[gvr.GroupResource()] = k
				}
				found[parsed.WithKind(resource.Kind)] = k
			}
		}
	}
	return found
}

// preferred returns the versions of a group, that which it prefers first.
func preferred(group *metav1.APIGroup) []string {
	versions := []string{group.PreferredVersion.GroupVersion}
	for _, version := range group.Versions {
		if !slices.Contains(versions, version.GroupVersion) {
			versions = append(versions, version.GroupVersion)
		}
	}
	return versions
}

func isSubresource(resource metav1.APIResource) bool {
	return slices.Contains([]byte(resource.Name), '/')
}

// isEvent reports whether a kind is not collected: events expire by themselves, and there may be a great many.
func isEvent(resource schema.GroupResource) bool {
	return resource.Resource == "events" && (resource.Group == "" || resource.Group == "events.k8s.io")
}

func hasVerbs(resource metav1.APIResource, verbs ...string) bool {
	return !slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(resource.Verbs, verb) })
}
