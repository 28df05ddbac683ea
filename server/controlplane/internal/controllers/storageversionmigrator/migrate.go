// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversionmigrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/internal/workloop"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/resourcediscovery"
)

const (
	// patience is how long a resource may take to be served that is not there: it may have been defined just before the migration.
	patience = 5 * time.Second
	// nextLook is how soon it is looked for again.
	nextLook = 200 * time.Millisecond
)

// hopeless is why a migration fails for good. Other errors are tried again.
type hopeless struct{ error }

// migrate does one migration. It returns nil when there is nothing left to do about it.
func (c *Controller) migrate(ctx context.Context, m *migration) error {
	err := c.rewrite(ctx, m)
	if never := (hopeless{}); errors.As(err, &never) {
		err = c.set(ctx, m, "", over(), failed(never.Error()))
	}
	if errors.Is(err, errGone) {
		klog.FromContext(ctx).V(2).Info("A migration is no longer wanted", "migration", m.Name)
		return nil
	}
	return err
}

func (c *Controller) rewrite(ctx context.Context, m *migration) error {
	kind, err := c.find(ctx, m)
	if err != nil {
		return err
	}
	if err = workloop.Pause(ctx, clock.RealClock{}, c.settle); err != nil {
		return err
	}
	if !c.wanted(m) {
		return errGone
	}
	definition, err := c.beginDefinition(ctx, m)
	if err != nil {
		return err
	}
	first, err := c.objects.Resource(kind.GroupVersionResource).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("list %s: %w", kind.GroupVersionResource, err)
	}
	if _, err = resourceversion.CompareResourceVersion(first.ResourceVersion, first.ResourceVersion); err != nil {
		return hopeless{fmt.Errorf("the server of %s does not say at which resource version it is: %w", resourceOf(m), err)}
	}
	if err = c.set(ctx, m, first.ResourceVersion, running()); err != nil {
		return err
	}
	number, err := rewriting{Controller: c, m: m, kind: kind}.all(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return errors.Join(err, c.endDefinition(ctx, definition, false))
	}
	if err := c.endDefinition(ctx, definition, true); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Objects are stored in the current form", "migration", m.Name, "resource", kind.GroupVersionResource, "objects", number)
	return c.set(ctx, m, "", over(), succeeded(fmt.Sprintf("Migration completed, %d objects are stored in the current form", number)))
}

// find returns the kind that is to be migrated.
func (c *Controller) find(ctx context.Context, m *migration) (*resourcediscovery.Kind, error) {
	for began := time.Now(); ; {
		kind, err := c.kinds.Find(ctx, resourceOf(m))
		if err != nil {
			return nil, err
		}
		if kind != nil && !kind.Can("list", "patch", "update") {
			return nil, hopeless{fmt.Errorf("objects of %s cannot be listed and written, so there is nothing to migrate; name a resource that is stored", resourceOf(m))}
		}
		if kind != nil {
			return kind, nil
		}
		if time.Since(began) > patience {
			return nil, hopeless{fmt.Errorf("this server has no resource %s; see kubectl api-resources for those that it has", resourceOf(m))}
		}
		if !c.wanted(m) {
			return nil, errGone
		}
		if err := workloop.Pause(ctx, clock.RealClock{}, nextLook); err != nil {
			return nil, err
		}
	}
}
