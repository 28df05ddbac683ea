// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
)

const (
	// crowded is the number of uses that leaves little room for others: a Feature lists 64 at most.
	crowded = 48
	// crowdedFactor divides the retention of uses in a crowded list, and the interval between two looks at all lists.
	crowdedFactor = 60
)

// useKey identifies a use of a Feature.
type useKey struct {
	component, version string
	value              v1alpha1.Value
}

func useKeyOf(use *v1alpha1.Use) useKey { return useKey{use.Component, use.Version, use.Value} }

// livePrograms are the component versions with a live reporter.
type livePrograms map[[2]string]bool

func (e *Engine) programs() livePrograms {
	out := livePrograms{}
	e.reporterLeases.Live(func(lease *coordinationv1.Lease) {
		out[[2]string{lease.Annotations[featuregate.AnnotationComponent], lease.Annotations[featuregate.AnnotationVersion]}] = true
	})
	return out
}

// includes reports whether one of them may have reported a use.
func (p livePrograms) includes(use *v1alpha1.Use) bool {
	return p[[2]string{use.Component, use.Version}]
}

// updateUnsupportedUses records since when uses have had no live reporter, and queues the Features with stale uses. All by what this
// replica has seen: that a use was reported long ago does not mean that it is over.
func (e *Engine) updateUnsupportedUses() {
	now, live := e.options.Clock.Now(), e.programs()
	e.mu.Lock()
	before := e.unsupportedUses
	e.mu.Unlock()
	after := map[string]map[useKey]time.Time{}
	for _, obj := range e.informer.GetStore().List() {
		feature := obj.(*v1alpha1.Feature)
		if feature.Status.Source == v1alpha1.SourceObserved {
			continue
		}
		for i := range feature.Status.Uses {
			use := &feature.Status.Uses[i]
			if live.includes(use) {
				continue
			}
			since, ok := before[feature.Name][useKeyOf(use)]
			if !ok {
				since = now
			}
			if after[feature.Name] == nil {
				after[feature.Name] = map[useKey]time.Time{}
			}
			after[feature.Name][useKeyOf(use)] = since
			if e.isStale(feature, since, now) {
				e.queue.Add(feature.Name)
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unsupportedUses = after
}

func (e *Engine) isStale(feature *v1alpha1.Feature, since, now time.Time) bool {
	limit := e.options.Timings.UseRetention
	if len(feature.Status.Uses) >= crowded {
		limit /= crowdedFactor
	}
	return now.Sub(since) >= limit
}

// staleUses returns the uses of a Feature that nobody has stood for long enough.
func (e *Engine) staleUses(feature *v1alpha1.Feature, now time.Time) map[useKey]bool {
	e.mu.Lock()
	since := e.unsupportedUses[feature.Name] // It is replaced, never changed.
	e.mu.Unlock()
	if len(since) == 0 {
		return nil
	}
	live, out := e.programs(), map[useKey]bool{}
	for i := range feature.Status.Uses {
		use := &feature.Status.Uses[i]
		if at, ok := since[useKeyOf(use)]; ok && e.isStale(feature, at, now) && !live.includes(use) {
			out[useKeyOf(use)] = true
		}
	}
	return out
}

// removeStaleUses removes uses without a live reporter. A reporter that was wrongly taken for dead reports again.
func (d *decider) removeStaleUses() {
	if len(d.in.staleUses) == 0 {
		return
	}
	d.out.status.Uses = slices.DeleteFunc(slices.Clone(d.out.status.Uses), func(use v1alpha1.Use) bool { return d.in.staleUses[useKeyOf(&use)] })
	if len(d.out.status.Uses) == 0 {
		d.out.status.Uses = nil
	}
}
