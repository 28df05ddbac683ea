// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	basegate "k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
)

// Names of the tasks that say who may use a feature that is TurningOn.
const (
	// TaskWaitForUses waits for the last who do not use the feature yet. When it is the first task left, use is permitted.
	TaskWaitForUses = "WaitForUses"
	// TaskCanary permits use to a part of the reporters.
	TaskCanary = "Canary"
)

// Option changes how a Gate works.
type Option func(*Gate) error

// OnChange is called after the value of a gate has changed because the Feature did, one call at a time, until the context that Run was
// given ends. What it does is part of the change: questions who uses the feature are not answered before it returns.
type OnChange func(ctx context.Context, enabled bool)

// FromAPI has the value of a gate follow the state of the Feature with its name. Where the gate depends on others, these must be
// enabled, too. The command line decides until a state was read.
func FromAPI(name basegate.Feature, onChange ...OnChange) Option {
	return func(g *Gate) error {
		if !reportable(name) {
			return fmt.Errorf("featuregate: FromAPI(%q): %s", name, "must be the name of one feature: a letter followed by letters, digits, '.', '_' or '-' (such as NodeSwap), at most 253 characters")
		}
		if g.followed[name] != nil {
			return fmt.Errorf("featuregate: FromAPI(%q) is given twice; pass all callbacks to one", name)
		}
		g.follow(name, onChange...)
		return nil
	}
}

// followed is a gate that follows the API.
type followed struct {
	value    *atomicVerdict
	onChange []OnChange
}

func (g *Gate) follow(name basegate.Feature, onChange ...OnChange) {
	f := &followed{value: &atomicVerdict{}, onChange: onChange}
	g.followed[name] = f
	g.uses.add(name, f.value)
}

// change is a value that the program has to be told of.
type change struct {
	name  basegate.Feature
	value bool
}

// adopt takes over what the Features say, and returns what has changed for the program. Only one may call it at a time.
func (g *Gate) adopt(logger klog.Logger, said map[basegate.Feature]verdict) []change {
	specs := g.GetAll()
	wanted := map[basegate.Feature]verdict{}
	for name, f := range g.followed {
		spec, available := specs[name]
		switch say := said[name]; {
		case !available || spec.LockToDefault:
			wanted[name] = unknown
		case say != unknown:
			wanted[name] = say
		default:
			wanted[name] = f.value.load()
		}
	}
	dependencies := g.Dependencies()
	var changes []change
	for name, f := range g.followed {
		want, before := wanted[name], g.peekKnown(name, specs)
		if want == enabled {
			if on := g.allEnabled(name, dependencies, wanted, specs); on != "" {
				logger.Info("A feature is on, but one that it depends on is not; it stays off here", "feature", name, "dependsOn", on)
				want = disabled
			}
		}
		if f.value.load() == want {
			continue
		}
		f.value.store(want)
		if after := g.peekKnown(name, specs); after != before {
			logger.Info("The value of a feature gate has changed with its Feature", "feature", name, "enabled", after)
			g.updateMetric(name)
			changes = append(changes, change{name, after})
		}
	}
	return changes
}

// peekKnown is peek for gates that may not be known, such as those that are added later.
func (g *Gate) peekKnown(name basegate.Feature, specs map[basegate.Feature]basegate.FeatureSpec) bool {
	if _, ok := specs[name]; !ok {
		return false
	}
	return g.peek(name)
}

// allEnabled returns a dependency of the gate that is not enabled, or nothing. Dependencies have no cycles.
func (g *Gate) allEnabled(name basegate.Feature, dependencies map[basegate.Feature][]basegate.Feature, wanted map[basegate.Feature]verdict,
	specs map[basegate.Feature]basegate.FeatureSpec) basegate.Feature {
	for _, on := range dependencies[name] {
		value := wanted[on] == enabled
		if wanted[on] == unknown {
			_, available := specs[on]
			value = available && g.MutableVersionedFeatureGate.Enabled(on)
		}
		if !value {
			return on
		}
		if below := g.allEnabled(on, dependencies, wanted, specs); below != "" {
			return below
		}
	}
	return ""
}

// permitted tells whether the Feature permits this instance to use it; unknown means that what was so far stays.
func permitted(feature *featuresv1alpha1.Feature, instance string) verdict {
	tasks := feature.Status.Tasks
	switch feature.Status.State {
	case featuresv1alpha1.StateOn:
		return enabled
	case featuresv1alpha1.StateOff, featuresv1alpha1.StateTurningOff:
		return disabled
	case featuresv1alpha1.StateTurningOn:
		switch {
		case len(tasks) > 0 && tasks[0].Name == TaskWaitForUses:
			return enabled
		case len(tasks) > 0 && tasks[0].Name == TaskCanary && feature.Spec.Canary == nil:
			// It was just ended, and the server will say in a moment what is next.
			return unknown
		case len(tasks) > 0 && tasks[0].Name == TaskCanary:
			return verdictOf(canaryNumber(instance) < feature.Spec.Canary.Percent)
		}
		return disabled
	}
	return unknown
}

// canaryNumber is a number from 0 to 99 that an instance always has: those that are in at 10 percent are in at 20.
func canaryNumber(instance string) int32 {
	sum := sha256.Sum256([]byte(instance))
	return int32(binary.BigEndian.Uint64(sum[:]) % 100)
}
