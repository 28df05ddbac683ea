// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// LeaseNamespace is where the server of Features keeps a Lease of each process that reports. Its holder is the instance. Reporters have no
// rights on these Leases.
const LeaseNamespace = "annex-system"

// LeasePrefix begins the names of these Leases.
const LeasePrefix = "feature-reporter-"

// Labels and annotations of these Leases.
const (
	// LabelNamespace is the namespace of the Features.
	LabelNamespace = "features.k8s.io/namespace"
	// LabelComponent is the component, and LabelVersion its version, as far as a label can have them (LabelValue).
	LabelComponent = "features.k8s.io/component"
	LabelVersion   = "features.k8s.io/version"
	// AnnotationComponent and AnnotationVersion are the same as they are in status.uses.
	AnnotationComponent = "features.k8s.io/component"
	AnnotationVersion   = "features.k8s.io/version"
	// AnnotationUser is the user that reported.
	AnnotationUser = "features.k8s.io/user"
	// AnnotationObserved is spec.observed of the last report. Absent until the process has read the Features.
	AnnotationObserved = "features.k8s.io/observed"
)

const (
	// LeaseDuration is how long a gate counts as running after its last report.
	LeaseDuration = 15 * time.Minute
	// RenewInterval is how often a gate reports although nothing has changed, give or take a tenth.
	RenewInterval = 5 * time.Minute
)

// requestTimeout is how long one request may take.
const requestTimeout = 15 * time.Second

// LeaseName returns the name of the Lease of a process. The user is part of it, so that nobody reports for processes of other users.
func LeaseName(namespace, user, component, instance string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{namespace, user, component, instance}, "\x00")))
	name := readableName(instance)
	if first := readableName(component); !strings.HasPrefix(name, first) {
		name = strings.Trim(first+"-"+name, "-")
	}
	return LeasePrefix + strings.Trim(name+"-"+hex.EncodeToString(sum[:10]), "-")
}

// readableName is what a name of an object can have of this text.
func readableName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(name[:min(len(name), 100)], "-")
}
