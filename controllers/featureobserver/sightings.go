// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"slices"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// apiServer is the component that the state follows.
const apiServer = "kube-apiserver"

// sighting is what one instance of a component said when it was read last.
type sighting struct {
	component string
	// reporter names the instance.
	reporter string
	page     *page
}

// unread is a component of which an instance could not be read since the observer was started.
type unread struct {
	component string
	// version is the instance's, or empty if it may be any.
	version string
}

// view is all that is known in one round.
type view struct {
	sightings []sighting
	unread    []unread
}

// observation is how instances of one version of a component see one gate.
type observation struct {
	component, version string
	value              v1alpha1.Value
	// stability is empty if it is not known.
	stability v1alpha1.Stability
	// reporters are the instances, in order.
	reporters []string
}

// byGate sorts what was seen by gates. Instances that see one gate in the same way are one observation.
func (v view) byGate() map[string][]observation {
	// Of thousands of kubelets there are only a few different pages.
	type group struct {
		component string
		page      *page
	}
	var groups []group
	reporters := map[group][]string{}
	for _, s := range v.sightings {
		g := group{s.component, s.page}
		if _, found := reporters[g]; !found {
			groups = append(groups, g)
		}
		reporters[g] = append(reporters[g], s.reporter)
	}
	gates := map[string][]observation{}
	for _, g := range groups {
		for name, gate := range g.page.gates {
			gates[name] = observe(gates[name], observation{
				component: g.component, version: g.page.version, value: gate.value, stability: gate.stability, reporters: reporters[g],
			})
		}
	}
	for _, observations := range gates {
		for i := range observations {
			slices.Sort(observations[i].reporters)
		}
	}
	return gates
}

// observe adds an observation to others of the same gate.
func observe(all []observation, next observation) []observation {
	for i := range all {
		if o := &all[i]; o.component == next.component && o.version == next.version && o.value == next.value {
			o.reporters = append(o.reporters, next.reporters...)
			if o.stability == "" {
				o.stability = next.stability
			}
			return all
		}
	}
	next.reporters = slices.Clone(next.reporters)
	return append(all, next)
}

// mayHold tells whether an instance that could not be read may be behind what is stored.
func (v view) mayHold(use *v1alpha1.Use) bool {
	return slices.ContainsFunc(v.unread, func(u unread) bool {
		return u.component == use.Component && (u.version == "" || u.version == use.Version)
	})
}
