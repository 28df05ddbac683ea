// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/controllers/leadership"
)

const (
	// writers is how many Features are written at a time, and listLimit how many are read at a time.
	writers   = 8
	listLimit = 500
	// writeTimeout is how long a round may write; the next one goes on.
	writeTimeout = 30 * time.Second
)

// write brings the Features in line with what was seen, and tells whether that is done. It costs one list when nothing changed.
func (c *Controller) write(ctx context.Context, seen view) (done bool) {
	logger := klog.FromContext(ctx)
	stored, err := c.list(ctx)
	if ctx.Err() == nil && c.listing.Changed(err) && err != nil {
		logger.Error(err, "Cannot read the Features; trying again")
	}
	if err != nil {
		return false
	}

	writeCtx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var writing sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	work := make(chan func(context.Context) error)
	for range writers {
		writing.Go(func() {
			for write := range work {
				err := writeCtx.Err()
				if err == nil {
					err = leadership.Call(writeCtx, write)
				}
				if err != nil {
					mu.Lock()
					failures = append(failures, err)
					mu.Unlock()
				}
			}
		})
	}
	gates := seen.byGate()
	now := metav1.NewTime(c.clock.Now()).Rfc3339Copy()
	for name, observations := range gates {
		if stored[name] == nil {
			work <- func(ctx context.Context) error { return c.create(ctx, name, observations, seen, now) }
		}
	}
	for name, feature := range stored {
		// A Feature that nobody has announced and no component has is not ours to write.
		if announced(feature) || feature.Status.Source == "" && gates[name] == nil {
			continue
		}
		if status := statusOf(feature, gates[name], seen, now); !equality.Semantic.DeepEqual(status, feature.Status) {
			work <- func(ctx context.Context) error { return c.update(ctx, feature, status) }
		}
	}
	close(work)
	writing.Wait()
	return c.told(ctx, failures)
}

// told logs why something was not written, and tells whether there is no point in trying again soon.
func (c *Controller) told(ctx context.Context, failures []error) bool {
	done, refused := true, error(nil)
	for _, err := range failures {
		switch {
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			// Somebody else was faster; the next round looks at what they did.
			done = false
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			refused = err
		default:
			done, refused = false, err
		}
	}
	reason := ""
	if refused != nil {
		reason = "failed " + string(apierrors.ReasonForError(refused))
	}
	if ctx.Err() == nil && c.writing.ChangedText(reason) && refused != nil {
		klog.FromContext(ctx).Error(refused, "Cannot write all Features; trying again", "failures", len(failures))
	}
	return done
}

func (c *Controller) list(ctx context.Context) (map[string]*v1alpha1.Feature, error) {
	stored := map[string]*v1alpha1.Feature{}
	options := metav1.ListOptions{Limit: listLimit}
	for {
		list, err := c.features.List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list features: %w", err)
		}
		for i := range list.Items {
			stored[list.Items[i].Name] = &list.Items[i]
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return stored, nil
		}
	}
}

func (c *Controller) create(ctx context.Context, name string, observations []observation, seen view, now metav1.Time) error {
	feature := &v1alpha1.Feature{}
	feature.Name = name
	created, err := c.features.Create(ctx, feature, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create Feature %s: %w", name, err)
	}
	return c.update(ctx, created, statusOf(created, observations, seen, now))
}

// update writes a status on the condition that the Feature is still the one that it was formed for.
func (c *Controller) update(ctx context.Context, feature *v1alpha1.Feature, status v1alpha1.FeatureStatus) error {
	next := feature.DeepCopy()
	next.Status = status
	if _, err := c.features.UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update status of Feature %s: %w", feature.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Wrote what was observed", "feature", feature.Name, "state", status.State)
	return nil
}
