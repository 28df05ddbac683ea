// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// errMisplaced is about a reference from an object outside of namespaces to one in a namespace, which cannot be followed.
var errMisplaced = errors.New("an object that is in no namespace has an owner in one")

// dependent is an object that names another one as an owner.
type dependent struct {
	m *monitor
	*meta
}

// dependents returns all objects that are known to name an owner, those of kinds included that are not served at the moment.
func (c *Controller) dependents(owner types.UID) []dependent {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var all []dependent
	for _, m := range c.monitors {
		for _, obj := range m.indexed(byOwner, string(owner)) {
			all = append(all, dependent{m, obj})
		}
		if m.previous == nil {
			continue
		}
		for _, obj := range m.previous.indexed(byOwner, string(owner)) {
			if m.get(obj.Namespace, obj.Name) == nil {
				all = append(all, dependent{m, obj})
			}
		}
	}
	return all
}

// allKnown reports whether the dependents of an object are all known. For patience, it waits for kinds that cannot be listed or watched, for
// servers whose discovery fails, and for definitions without a served version.
func (c *Controller) allKnown() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.incomplete.IsZero() && time.Since(c.incomplete) < patience {
		return false
	}
	for _, m := range c.monitors {
		if m.isWaitedFor() {
			return false
		}
	}
	for resource, since := range c.unserved {
		if c.monitors[resource] == nil && time.Since(since) < patience {
			return false
		}
	}
	return len(c.monitors) > 0
}

// kindOf returns how objects of the kind in a reference are reached.
func (c *Controller) kindOf(ref metav1.OwnerReference) (kind, bool) {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return kind{}, false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	wanted := version.WithKind(ref.Kind)
	k, ok := c.kinds[wanted]
	if ok && !k.former {
		return k, true
	}
	// A definition has the same objects in all of its versions.
	for served, other := range c.kinds {
		if served.GroupKind() != wanted.GroupKind() || other.former {
			continue
		}
		if without, defined := c.defined[other.resource.GroupResource()]; defined && without.IsZero() {
			return other, true
		}
	}
	return k, ok
}

// find returns the owner that a reference means, if a monitor has it.
func (c *Controller) find(ref metav1.OwnerReference, namespace string) (*monitor, *meta) {
	k, ok := c.kindOf(ref)
	if !ok {
		return nil, nil
	}
	m := c.monitor(k.resource.GroupResource())
	if m == nil {
		return nil, nil
	}
	if !k.namespaced {
		namespace = ""
	}
	if owner := m.get(namespace, ref.Name); owner != nil && owner.UID == ref.UID {
		return m, owner
	}
	return nil, nil
}

// owner returns the owner that a reference of an object in the namespace means, or nil if there is none any more.
func (c *Controller) owner(ctx context.Context, ref metav1.OwnerReference, namespace string) (*meta, error) {
	if _, owner := c.find(ref, namespace); owner != nil {
		return owner, nil
	}
	k, known := c.kindOf(ref)
	switch {
	case !known:
		return nil, fmt.Errorf("the kind %s of %s of the owner %s is not known", ref.Kind, ref.APIVersion, ref.Name)
	case !k.namespaced:
		namespace = ""
	case namespace == "":
		return nil, errMisplaced
	}
	meant := object{resource: k.resource.GroupResource(), namespace: namespace, name: ref.Name, uid: ref.UID}
	if _, absent := c.absent.Get(meant); absent {
		return nil, nil
	}
	if k.former {
		// Its objects may still be somewhere: an extension server that is registered no more keeps what it has. Those of a definition are
		// deleted before it is.
		if err := c.isUndefined(ctx, k.resource.GroupResource()); err != nil {
			return nil, fmt.Errorf("the kind %s of %s of the owner %s is not served any more: %w", ref.Kind, ref.APIVersion, ref.Name, err)
		}
		c.absent.Add(meant, nil)
		return nil, nil
	}
	owner, err := c.read(ctx, k, namespace, ref.Name)
	if isGone(err, ref.Name) || err == nil && owner.UID != ref.UID {
		c.absent.Add(meant, nil)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the owner %s %s: %w", ref.Kind, ref.Name, err)
	}
	return owner, nil
}

// isUndefined returns nil if a kind had a definition that is gone, which is asked for: one whose stored bytes cannot be read is deleted as
// far as watches tell.
func (c *Controller) isUndefined(ctx context.Context, resource schema.GroupResource) error {
	c.mu.RLock()
	_, defined := c.defined[resource]
	m := c.monitors[definitions]
	c.mu.RUnlock()
	if !defined || m == nil {
		return errors.New("its objects may be kept by a server that is not registered any more")
	}
	_, err := m.client.Get(ctx, resource.String(), metav1.GetOptions{})
	switch {
	case isGone(err, resource.String()):
		return nil
	case err != nil:
		return fmt.Errorf("read its definition: %w", err)
	}
	return errors.New("it is still defined")
}

func (c *Controller) read(ctx context.Context, k kind, namespace, name string) (*meta, error) {
	resources := c.client.Resource(k.resource)
	if k.namespaced {
		return resources.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	return resources.Get(ctx, name, metav1.GetOptions{})
}

// isGone reports whether the server of a kind answered that the object does not exist. A kind that no server serves is a 404, too.
func isGone(err error, name string) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name && !slices.ContainsFunc(details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}
