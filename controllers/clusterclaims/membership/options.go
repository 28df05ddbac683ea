// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/controllers/clusterclaims/hub"
)

const (
	// DefaultInterval is how often reservations are looked at when nothing happens.
	DefaultInterval = time.Minute
	// DefaultOrphanAfter is how long a reservation stays whose claim was never stored. Requests end after a minute.
	DefaultOrphanAfter = 5 * time.Minute
)

// Options configure the controller. Hub and Host are for the caller to set.
type Options struct {
	// Host reaches the API that has the claims.
	Host *rest.Config
	// Hub is where ids are reserved.
	Hub *hub.Client
	// Interval is how often reservations are looked at when nothing happens; 0 means DefaultInterval.
	Interval time.Duration
	// OrphanAfter is how long a reservation stays whose claim was never stored; 0 means DefaultOrphanAfter.
	OrphanAfter time.Duration
	// Clock is for tests; nil means the real one.
	Clock clock.Clock
}
