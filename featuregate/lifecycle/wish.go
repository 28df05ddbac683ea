// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// wish is what the live replicas and spec.desired want of a feature.
type wish struct {
	value  v1alpha1.Value
	source v1alpha1.Source
	// dispute names who wants what where they do not agree; then there is no value.
	dispute string
}

func (w wish) agreed() bool { return w.dispute == "" }

// said is a replica together with what it announces of the feature in question.
type said struct {
	replica
	announcement
}

// announcers returns the live replicas that know a feature, in order of their names, and those that should but do not: others of the
// same components, whose older or newer version lacks the gate.
func announcers(replicas []replica, name string) (know []said, lack []replica) {
	components := map[string]bool{}
	for _, r := range replicas {
		if a, ok := r.features[name]; ok {
			know = append(know, said{r, a})
			components[r.component] = true
		}
	}
	for _, r := range replicas {
		if _, ok := r.features[name]; !ok && components[r.component] {
			lack = append(lack, r)
		}
	}
	slices.SortFunc(know, func(a, b said) int { return cmp.Compare(a.name, b.name) })
	slices.SortFunc(lack, func(a, b replica) int { return cmp.Compare(a.name, b.name) })
	return know, lack
}

// wishOf forms the wish. A source counts as CommandLine only if it is that on all replicas: as long as one has a value by default,
// that it is the one somebody wants is not known. To take a flag or spec.desired away is as much somebody's act as to set one, so
// what changes thereby waits for no confirmation; but see decision.defaulted for a flag that only repeated what was the default.
func wishOf(desired v1alpha1.Value, know []said, lack []replica) wish {
	if desired != "" && isDynamic(know) {
		return wish{value: desired, source: v1alpha1.SourceDynamic}
	}
	out := wish{value: know[0].Value, source: v1alpha1.SourceCommandLine}
	disagree := len(lack) > 0
	for _, a := range know {
		if a.Source != v1alpha1.SourceCommandLine {
			out.source = v1alpha1.SourceDefault
		}
		disagree = disagree || a.Value != out.value
	}
	if !disagree {
		return out
	}
	parts := make([]string, 0, len(know)+len(lack))
	for _, a := range know {
		parts = append(parts, fmt.Sprintf("%s (%s) wants %s", a.display(), a.announcement.Version, a.Value))
	}
	for _, r := range lack {
		parts = append(parts, fmt.Sprintf("%s (%s) does not know it", r.display(), r.version))
	}
	return wish{dispute: few(parts)}
}

// display is how people know the replica.
func (r replica) display() string { return strings.TrimSuffix(r.name, leaseSuffix) }

// isDynamic tells whether spec.desired counts: all replicas must say so.
func isDynamic(know []said) bool {
	return !slices.ContainsFunc(know, func(a said) bool { return !a.Dynamic || a.Locked })
}

// lowest returns what the replica with the lowest version of the feature's component announces.
func lowest(know []said) announcement {
	return slices.MinFunc(know, compareAnnouncers).announcement
}

// highest returns what the replica with the highest version of the feature's component announces.
func highest(know []said) announcement {
	return slices.MaxFunc(know, compareAnnouncers).announcement
}

func compareAnnouncers(a, b said) int {
	return compareVersions(a.announcement.Version, b.announcement.Version)
}

// compareVersions puts what is no version below all others.
func compareVersions(a, b string) int {
	va, errA := version.ParseGeneric(a)
	vb, errB := version.ParseGeneric(b)
	switch {
	case errA != nil || errB != nil:
		return cmp.Or(compareBool(errA == nil, errB == nil), cmp.Compare(a, b))
	case va.LessThan(vb):
		return -1
	case vb.LessThan(va):
		return 1
	}
	return 0
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// expired tells whether a feature of this version is so old that all live replicas are past its retention. Of components whose major
// version is another, nothing is known.
func expired(featureVersion string, replicas []replica, retention int) bool {
	old, err := version.ParseGeneric(featureVersion)
	if err != nil || retention < 0 || len(replicas) == 0 {
		return false
	}
	for _, r := range replicas {
		now, err := version.ParseGeneric(r.version)
		if err != nil || now.Major() != old.Major() || int64(now.Minor())-int64(old.Minor()) < int64(retention) {
			return false
		}
	}
	return true
}

// few joins as many as people read.
func few(parts []string) string {
	const most = 10
	if len(parts) <= most {
		return strings.Join(parts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(parts[:most], ", "), len(parts)-most)
}
