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
	// crowded is how many uses leave little room for others: a Feature lists 64 at most.
	crowded = 48
	// hurry is how much sooner uses are removed from a crowded list, and how often all lists are looked at in the usual time.
	hurry = 60
)

// useKey is what tells a use from others of its Feature.
type useKey struct {
	component, version string
	value              v1alpha1.Value
}

func keyOf(use *v1alpha1.Use) useKey { return useKey{use.Component, use.Version, use.Value} }

// programs are the versions of components of which some reporter is live.
type programs map[[2]string]bool

func (e *Engine) programs() programs {
	out := programs{}
	e.reporters.live(func(lease *coordinationv1.Lease, _ time.Time) {
		component, label := lease.Labels[featuregate.LabelComponent], lease.Labels[featuregate.LabelVersion]
		out[[2]string{component, label}] = true
		if exact := lease.Annotations[featuregate.AnnotationVersion]; exact != "" {
			out[[2]string{component, exact}] = true
		}
	})
	return out
}

// standFor tells whether one of them may have reported a use.
func (p programs) standFor(use *v1alpha1.Use) bool {
	return p[[2]string{use.Component, use.Version}] || p[[2]string{use.Component, featuregate.VersionLabel(use.Version)}]
}

// watchUses notes since when nobody has stood for a use, and has the Features looked at that can do without some. All by what this
// replica has seen: that a use was reported long ago does not mean that it is over.
func (e *Engine) watchUses() {
	now, live := e.options.Clock.Now(), e.programs()
	e.mu.Lock()
	before := e.unsupported
	e.mu.Unlock()
	after := map[string]map[useKey]time.Time{}
	for _, obj := range e.informer.GetStore().List() {
		feature := obj.(*v1alpha1.Feature)
		if feature.Status.Source == v1alpha1.SourceObserved {
			continue
		}
		for i := range feature.Status.Uses {
			use := &feature.Status.Uses[i]
			if live.standFor(use) {
				continue
			}
			since, ok := before[feature.Name][keyOf(use)]
			if !ok {
				since = now
			}
			if after[feature.Name] == nil {
				after[feature.Name] = map[useKey]time.Time{}
			}
			after[feature.Name][keyOf(use)] = since
			if e.isStale(feature, since, now) {
				e.queue.Add(feature.Name)
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unsupported = after
}

func (e *Engine) isStale(feature *v1alpha1.Feature, since, now time.Time) bool {
	limit := e.options.Timings.UseRetention
	if len(feature.Status.Uses) >= crowded {
		limit /= hurry
	}
	return now.Sub(since) >= limit
}

// staleUses returns the uses of a Feature that nobody has stood for long enough.
func (e *Engine) staleUses(feature *v1alpha1.Feature, now time.Time) map[useKey]bool {
	e.mu.Lock()
	since := e.unsupported[feature.Name] // It is replaced, never changed.
	e.mu.Unlock()
	if len(since) == 0 {
		return nil
	}
	live, out := e.programs(), map[useKey]bool{}
	for i := range feature.Status.Uses {
		use := &feature.Status.Uses[i]
		if at, ok := since[keyOf(use)]; ok && e.isStale(feature, at, now) && !live.standFor(use) {
			out[keyOf(use)] = true
		}
	}
	return out
}

// forgetStale removes the uses that nobody stands for any more. Who is wrongly taken for gone reports again.
func (d *decision) forgetStale() {
	if len(d.stale) == 0 {
		return
	}
	d.status.Uses = slices.DeleteFunc(slices.Clone(d.status.Uses), func(use v1alpha1.Use) bool { return d.stale[keyOf(&use)] })
	if len(d.status.Uses) == 0 {
		d.status.Uses = nil
	}
}
