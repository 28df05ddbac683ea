// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"github.com/spf13/pflag"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/server/featuregating/gates"
)

// Leadership says how the controllers of a process share work with those of others.
type Leadership struct {
	Timings leadership.Timings
	// StoreID names what only one process has at a time, by which Leases are retaken at once after a restart.
	StoreID string
	// MarkWrites names the term as field manager of writes, for artifacts/deploy/leader-writes-policy.yaml.
	MarkWrites bool
	// Metrics are those of the process; nil for none.
	Metrics *leadership.Metrics
	// BeforeExit is called before the process ends because controllers cannot be stopped, or, without the gate
	// GracefulLeaderTransition, because a Lease was lost.
	BeforeExit func(why error)
	// Exit ends the process; nil means os.Exit.
	Exit func(code int)
}

// NewLeadership returns the usual timings.
func NewLeadership() Leadership {
	return Leadership{Timings: leadership.NewOptions().Timings}
}

// AddFlags adds the timings.
func (l *Leadership) AddFlags(fs *pflag.FlagSet) { l.Timings.AddFlags(fs) }

// Validate reports every mistake.
func (l *Leadership) Validate() []error { return l.Timings.Validate() }

// ElectorOptions returns the options of an elector whose Leases are on the server that the client reaches.
func (l *Leadership) ElectorOptions(client *rest.Config, gate featuregate.FeatureGate) leadership.Options {
	o := leadership.NewOptions()
	o.Client = client
	o.Timings = l.Timings
	o.DetectLeaks = true
	o.ExitOnLoss = !gate.Enabled(gates.GracefulLeaderTransition)
	o.Owner = l.StoreID
	o.MarkWrites = l.MarkWrites
	o.Metrics = l.Metrics
	o.BeforeExit, o.Exit = l.BeforeExit, l.Exit
	return o
}
