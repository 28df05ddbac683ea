// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/version"
	basegate "k8s.io/component-base/featuregate"
	featuremetrics "k8s.io/component-base/metrics/prometheus/feature"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Gate is a feature gate that reports its uses while Run runs. It behaves as the gate it is made of in everything else.
type Gate struct {
	basegate.MutableVersionedFeatureGate

	options  Options
	uses     *uses
	followed map[basegate.Feature]*followed
	// running is set while Run runs, and metrics once AddMetrics was called.
	running, metrics atomic.Bool
}

var (
	_ basegate.MutableVersionedFeatureGate           = &Gate{}
	_ basegate.MutableFeatureGateWithLogger          = &Gate{}
	_ basegate.MutableVersionedFeatureGateWithLogger = &Gate{}
)

// New returns a gate over base. It starts nothing. The error names everything that is wrong with the options.
func New(base basegate.MutableVersionedFeatureGate, options Options, more ...Option) (*Gate, error) {
	errs := options.Validate()
	if base == nil {
		errs = append(errs, errors.New("featuregate: there is no gate to report on; pass that of k8s.io/component-base/featuregate"))
	}
	if _, ok := base.(*Gate); ok {
		errs = append(errs, errors.New("featuregate: the gate reports already; pass the one it was made of"))
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	g := &Gate{MutableVersionedFeatureGate: base, options: options, uses: newUses(), followed: map[basegate.Feature]*followed{}}
	for _, option := range more {
		if err := option(g); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return g, nil
}

// Enabled tells whether a feature is enabled, and notes that the program uses it. It panics if the gate does not know the feature.
func (g *Gate) Enabled(name basegate.Feature) bool {
	u := g.uses.find(name)
	value := g.MutableVersionedFeatureGate.Enabled(name)
	if u == nil {
		u = g.uses.add(name, nil)
	}
	if u.api != nil {
		value = u.api.over(value)
	}
	if u.seen.load() != verdictOf(value) {
		g.uses.see(u, value)
	}
	return value
}

// peek is Enabled without noting a use.
func (g *Gate) peek(name basegate.Feature) bool {
	value := g.MutableVersionedFeatureGate.Enabled(name)
	if f := g.followed[name]; f != nil {
		value = f.value.over(value)
	}
	return value
}

// AddMetrics publishes the values of all gates as metrics; that is no use of them. Gates that follow the API change there, too.
func (g *Gate) AddMetrics() {
	g.metrics.Store(true)
	g.MutableVersionedFeatureGate.AddMetrics()
	for name := range g.followed {
		g.updateMetric(name)
	}
}

func (g *Gate) updateMetric(name basegate.Feature) {
	if !g.metrics.Load() {
		return
	}
	if spec, ok := g.GetAll()[name]; ok {
		featuremetrics.RecordFeatureInfo(context.Background(), string(name), string(spec.PreRelease), g.peek(name))
	}
}

// DeepCopy returns a *Gate with the same values and without uses. It reports when its own Run is called.
func (g *Gate) DeepCopy() basegate.MutableVersionedFeatureGate {
	return g.over(g.MutableVersionedFeatureGate.DeepCopy(), true)
}

// DeepCopyAndReset returns a *Gate with the default values and without uses. It reports when its own Run is called.
func (g *Gate) DeepCopyAndReset() basegate.MutableVersionedFeatureGate {
	return g.over(g.MutableVersionedFeatureGate.DeepCopyAndReset(), false)
}

func (g *Gate) over(base basegate.MutableVersionedFeatureGate, keep bool) *Gate {
	c := &Gate{MutableVersionedFeatureGate: base, options: g.options, uses: newUses(), followed: map[basegate.Feature]*followed{}}
	for name, f := range g.followed {
		c.follow(name, f.onChange...)
		if keep {
			c.followed[name].value.store(f.value.load())
		}
	}
	return c
}

// String returns the values that were set, if the gate below can tell.
func (g *Gate) String() string {
	if s, ok := g.MutableVersionedFeatureGate.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

// Type names the type of the flag, so that the gate can be one.
func (g *Gate) Type() string {
	if t, ok := g.MutableVersionedFeatureGate.(interface{ Type() string }); ok {
		return t.Type()
	}
	return "mapStringBool"
}

// What follows passes the logger on where the gate below takes one. The lines that are logged name the caller.

// SetWithLogger is Set with a logger.
func (g *Gate) SetWithLogger(logger klog.Logger, value string) error {
	helper, logger := logger.WithCallStackHelper()
	helper()
	if base, ok := g.MutableVersionedFeatureGate.(basegate.MutableFeatureGateWithLogger); ok {
		return base.SetWithLogger(logger, value)
	}
	return g.Set(value)
}

// SetFromMapWithLogger is SetFromMap with a logger.
func (g *Gate) SetFromMapWithLogger(logger klog.Logger, m map[string]bool) error {
	helper, logger := logger.WithCallStackHelper()
	helper()
	if base, ok := g.MutableVersionedFeatureGate.(basegate.MutableFeatureGateWithLogger); ok {
		return base.SetFromMapWithLogger(logger, m)
	}
	return g.SetFromMap(m)
}

// OverrideDefaultWithLogger is OverrideDefault with a logger.
func (g *Gate) OverrideDefaultWithLogger(logger klog.Logger, name basegate.Feature, override bool) error {
	helper, logger := logger.WithCallStackHelper()
	helper()
	if base, ok := g.MutableVersionedFeatureGate.(basegate.MutableFeatureGateWithLogger); ok {
		return base.OverrideDefaultWithLogger(logger, name, override)
	}
	return g.OverrideDefault(name, override)
}

// SetEmulationVersionWithLogger is SetEmulationVersion with a logger.
func (g *Gate) SetEmulationVersionWithLogger(logger klog.Logger, emulation *version.Version) error {
	helper, logger := logger.WithCallStackHelper()
	helper()
	if base, ok := g.MutableVersionedFeatureGate.(basegate.MutableVersionedFeatureGateWithLogger); ok {
		return base.SetEmulationVersionWithLogger(logger, emulation)
	}
	return g.SetEmulationVersion(emulation)
}

// SetEmulationVersionAndMinCompatibilityVersionWithLogger is SetEmulationVersionAndMinCompatibilityVersion with a logger.
func (g *Gate) SetEmulationVersionAndMinCompatibilityVersionWithLogger(logger klog.Logger, emulation, minCompatibility *version.Version) error {
	helper, logger := logger.WithCallStackHelper()
	helper()
	if base, ok := g.MutableVersionedFeatureGate.(basegate.MutableVersionedFeatureGateWithLogger); ok {
		return base.SetEmulationVersionAndMinCompatibilityVersionWithLogger(logger, emulation, minCompatibility)
	}
	return g.SetEmulationVersionAndMinCompatibilityVersion(emulation, minCompatibility)
}

// OverrideDefaultAtVersionWithLogger is OverrideDefaultAtVersion with a logger.
func (g *Gate) OverrideDefaultAtVersionWithLogger(logger klog.Logger, name basegate.Feature, override bool, at *version.Version) error {
	helper, logger := logger.WithCallStackHelper()
	helper()
	if base, ok := g.MutableVersionedFeatureGate.(basegate.MutableVersionedFeatureGateWithLogger); ok {
		return base.OverrideDefaultAtVersionWithLogger(logger, name, override, at)
	}
	return g.OverrideDefaultAtVersion(name, override, at)
}
