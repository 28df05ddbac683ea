// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// Labels and annotations of the Leases of replicas; LabelNamespace and those of reporters are in featuregate.
const (
	// announcerLabel of a replica's Lease is the replica's component.
	announcerLabel = "features.k8s.io/announcer"
	// announcedAnnotation of a replica's Lease is what it knows and how that is configured.
	announcedAnnotation = "features.k8s.io/announced"
)

// replica is a live server.
type replica struct {
	// name is that of its Lease, and holder that of the process behind it.
	name, holder string
	component    string
	version      string
	features     map[string]announcement
}

// announcement is what a replica says of one feature.
type announcement struct {
	Value     v1alpha1.Value     `json:"value"`
	Source    v1alpha1.Source    `json:"source"`
	Default   v1alpha1.Value     `json:"default"`
	Stability v1alpha1.Stability `json:"stability,omitempty"`
	Locked    bool               `json:"locked,omitempty"`
	Dynamic   bool               `json:"dynamic,omitempty"`
	Version   string             `json:"version"`
	// Changes are the versions that changed what is stored, with commas between them.
	Changes string `json:"changes,omitempty"`
}

// announcementList is the annotation.
type announcementList struct {
	Version  string                  `json:"version"`
	Features map[string]announcement `json:"features"`
}

func announce(o *Options) (string, error) {
	out := announcementList{Version: o.Version, Features: map[string]announcement{}}
	for i := range o.Features {
		f := &o.Features[i]
		a := announcement{
			Value: f.Configured, Source: f.Source, Default: f.Default,
			Stability: f.Stability, Locked: f.Locked, Dynamic: f.Dynamic, Version: f.Version,
			Changes: strings.Join(f.changes(), ","),
		}
		if a.Source == "" {
			a.Source = v1alpha1.SourceDefault
		}
		if a.Version == "" {
			a.Version = o.Version
		}
		out.Features[f.Name] = a
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("encode what this replica knows: %w", err)
	}
	return string(text), nil
}

// replicaOf reads a replica's Lease. One that cannot be read knows nothing, which holds up those of its component.
func replicaOf(lease *coordinationv1.Lease) replica {
	var a announcementList
	_ = json.Unmarshal([]byte(lease.Annotations[announcedAnnotation]), &a)
	return replica{
		name: lease.Name, holder: ptr.Deref(lease.Spec.HolderIdentity, ""),
		component: lease.Labels[announcerLabel], version: a.Version, features: a.Features,
	}
}

func (r replica) equal(other replica) bool {
	return r.name == other.name && r.holder == other.holder && r.component == other.component && r.version == other.version &&
		maps.Equal(r.features, other.features)
}
