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

// desiredValue is the value of a feature on which the live replicas and spec.desired agree.
type desiredValue struct {
	value  v1alpha1.Value
	source v1alpha1.Source
	// dispute lists the replicas and what they want if they disagree; then there is no value.
	dispute string
}

func (w desiredValue) agreed() bool { return w.dispute == "" }

// announcedBy is the announcement of a feature with the replica that made it.
type announcedBy struct {
	replica
	announcement
}

// announcements returns the announcements of a feature, in order of the replicas' names, and the replicas that miss the feature: others of
// the same components, whose older or newer version lacks the gate.
func announcements(replicas []replica, name string) (announcing []announcedBy, missing []replica) {
	components := map[string]bool{}
	for _, r := range replicas {
		if a, ok := r.features[name]; ok {
			announcing = append(announcing, announcedBy{r, a})
			components[r.component] = true
		}
	}
	for _, r := range replicas {
		if _, ok := r.features[name]; !ok && components[r.component] {
			missing = append(missing, r)
		}
	}
	slices.SortFunc(announcing, func(a, b announcedBy) int { return cmp.Compare(a.name, b.name) })
	slices.SortFunc(missing, func(a, b replica) int { return cmp.Compare(a.name, b.name) })
	return announcing, missing
}

// resolveDesired returns the value that the replicas ask for. Replicas that differ in whether spec.desired counts disagree, whatever their values: spec.desired of a feature
// may be what keeps it On. A source counts as CommandLine only if it is that on all replicas: as long as one has a value by default,
// that it is the one somebody wants is not known. To take a flag or spec.desired away is as much somebody's act as to set one, so
// what changes thereby waits for no confirmation; but see decision.defaulted for a flag that only repeated what was the default.
func resolveDesired(desired v1alpha1.Value, announcing []announcedBy, missing []replica) desiredValue {
	mixed := slices.ContainsFunc(announcing, func(a announcedBy) bool { return a.allowsDesired() != announcing[0].allowsDesired() })
	if desired != "" && isDynamic(announcing) && len(missing) == 0 {
		return desiredValue{value: desired, source: v1alpha1.SourceDynamic}
	}
	out := desiredValue{value: announcing[0].Value, source: v1alpha1.SourceCommandLine}
	disagree := mixed || len(missing) > 0
	for _, a := range announcing {
		if a.Source != v1alpha1.SourceCommandLine {
			out.source = v1alpha1.SourceDefault
		}
		disagree = disagree || a.Value != out.value
	}
	if !disagree {
		return out
	}
	parts := make([]string, 0, len(announcing)+len(missing))
	for _, a := range announcing {
		part := fmt.Sprintf("%s (%s) wants %s", a.display(), a.announcement.Version, a.Value)
		switch {
		case mixed && a.allowsDesired():
			part += " and allows spec.desired"
		case mixed:
			part += " and does not allow spec.desired"
		}
		parts = append(parts, part)
	}
	for _, r := range missing {
		parts = append(parts, fmt.Sprintf("%s (%s) does not know it", r.display(), r.version))
	}
	return desiredValue{dispute: joinFew(parts)}
}

// display is the replica's name in messages.
func (r replica) display() string { return strings.TrimSuffix(r.name, leaseSuffix) }

// isDynamic reports whether spec.desired counts: all replicas must allow it.
func isDynamic(announcing []announcedBy) bool {
	return !slices.ContainsFunc(announcing, func(a announcedBy) bool { return !a.allowsDesired() })
}

// allowsDesired reports whether the replica lets spec.desired decide.
func (a announcement) allowsDesired() bool { return a.Dynamic && !a.Locked }

// lowestVersion returns what the replica with the lowest version of the feature's component announces.
func lowestVersion(announcing []announcedBy) announcedBy {
	return slices.MinFunc(announcing, compareAnnouncers)
}

// highestVersion returns what the replica with the highest version of the feature's component announces.
func highestVersion(announcing []announcedBy) announcedBy {
	return slices.MaxFunc(announcing, compareAnnouncers)
}

func compareAnnouncers(a, b announcedBy) int {
	return compareVersions(a.announcement.Version, b.announcement.Version)
}

// compareVersions orders versions; text that is no version is lower than all versions.
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

// expired reports whether a feature of this version is so old that all live replicas of the component that announced it are past its
// retention. Versions of other components, and of another major version, are not comparable.
func expired(component, featureVersion string, replicas []replica, retention int) bool {
	old, err := version.ParseGeneric(featureVersion)
	replicas = slices.DeleteFunc(slices.Clone(replicas), func(r replica) bool { return r.component != component })
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

// joinFew joins the first ten.
func joinFew(parts []string) string {
	const most = 10
	if len(parts) <= most {
		return strings.Join(parts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(parts[:most], ", "), len(parts)-most)
}
