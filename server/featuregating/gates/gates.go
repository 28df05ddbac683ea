// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gates defines Annex's own feature gates, and what gates of any server gate (Gated). Gates are values: callers receive them, and
// two servers in one process can have different ones. The gates of the Kubernetes libraries are separate, with one set for the process.
//
// Specs have versions of Annex, which begin with 0.1, not the Kubernetes version of the libraries: the version of a gate's line is the one
// in which its default changed. This package is not a stable API.
package gates

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"
)

// Annex's feature gates.
const (
	// GracefulLeaderTransition keeps a process that loses a Lease running as a follower. Off means that it ends, as processes did
	// before KEP-5366.
	GracefulLeaderTransition featuregate.Feature = "GracefulLeaderTransition"
	// FeatureCanary serves the field spec.canary of Features.
	FeatureCanary featuregate.Feature = "FeatureCanary"
	// NodeBalloonReclaimPolicy serves the field spec.reclaimPolicy of NodeBalloons.
	NodeBalloonReclaimPolicy featuregate.Feature = "NodeBalloonReclaimPolicy"
)

// Gates that every feature gate has.
const (
	allAlpha featuregate.Feature = "AllAlpha"
	allBeta  featuregate.Feature = "AllBeta"
)

const flagName = "feature-gates"

// Namespace holds the Features of these gates.
const Namespace = "annex-system"

// annexVersion is the version of Annex that this source becomes.
func annexVersion() *version.Version { return version.MajorMinor(0, 1) }

// Version is the version of Annex that this source becomes, as Features have it.
func Version() string { return "v" + annexVersion().String() + ".0" }

// Own returns the gates that are features: all but AllAlpha and AllBeta, which set others.
func Own(gates featuregate.MutableVersionedFeatureGate) map[featuregate.Feature]featuregate.FeatureSpec {
	all := gates.GetAll()
	delete(all, allAlpha)
	delete(all, allBeta)
	return all
}

// ReadAtStart reports whether processes read the gate only when they start, because a running process cannot change what it enables.
func ReadAtStart(name featuregate.Feature) bool { return name == GracefulLeaderTransition }

// IsSet reports whether flags have set the gate, by its name or with all gates of its stage.
func IsSet(gates featuregate.MutableVersionedFeatureGate, name featuregate.Feature) bool {
	switch spec := gates.GetAll()[name]; {
	case gates.ExplicitlySet(name):
		return true
	case spec.LockToDefault:
		return false
	case spec.PreRelease == featuregate.Alpha:
		return gates.ExplicitlySet(allAlpha)
	case spec.PreRelease == featuregate.Beta:
		return gates.ExplicitlySet(allBeta)
	}
	return false
}

// New returns all gates with their defaults.
func New() featuregate.MutableVersionedFeatureGate {
	gates := featuregate.NewVersionedFeatureGate(annexVersion())
	// It fails only if one gate has two different specs, which tests would show.
	_ = gates.AddVersioned(specs())
	return gates
}

func specs() map[featuregate.Feature]featuregate.VersionedSpecs {
	first := annexVersion()
	return map[featuregate.Feature]featuregate.VersionedSpecs{
		GracefulLeaderTransition: {{Version: first, Default: true, PreRelease: featuregate.Beta}},
		FeatureCanary:            {{Version: first, Default: false, PreRelease: featuregate.Alpha}},
		NodeBalloonReclaimPolicy: {{Version: first, Default: false, PreRelease: featuregate.Alpha}},
	}
}

// AddFlag adds --feature-gates.
func AddFlag(fs *pflag.FlagSet, gates featuregate.MutableVersionedFeatureGate) {
	fs.Var(&flag{gates: gates}, flagName, "Feature gates to turn on or off, as NAME=true or NAME=false, separated by commas:\n"+
		strings.Join(gates.KnownFeatures(), "\n"))
}

// flag is a feature gate as a flag whose errors list all gates.
type flag struct {
	gates featuregate.MutableVersionedFeatureGate
}

// Set implements pflag.Value.
func (f *flag) Set(value string) error {
	if err := f.gates.Set(value); err != nil {
		return fmt.Errorf("%w; the gates are %s, each as NAME=true or NAME=false", err, strings.Join(f.names(), ", "))
	}
	return nil
}

// names lists the gates, AllAlpha and AllBeta included.
func (f *flag) names() []string {
	var names []string
	for _, known := range f.gates.KnownFeatures() {
		name, _, _ := strings.Cut(known, "=")
		names = append(names, name)
	}
	return names
}

// String implements pflag.Value. It is empty, so that the help shows no default; the usage lists those of all gates.
func (f *flag) String() string { return "" }

// Type implements pflag.Value.
func (f *flag) Type() string { return "NAME=true|false,..." }
