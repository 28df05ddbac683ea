// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"

	"github.com/spf13/pflag"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// Features are the side doors and limits of a generic apiserver.
type Features struct {
	// Profiling serves /debug/pprof, behind authorization.
	Profiling bool
	// ContentionProfiling also records where goroutines block; it costs time on every lock.
	ContentionProfiling bool
	// PriorityAndFairness queues requests by the flow schemas of the cluster instead of limiting their number.
	PriorityAndFairness bool
	// MaxRequestsInFlight and MaxMutatingRequestsInFlight limit what runs at once; priority and fairness shares out their sum.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int
}

// NewFeatures returns profiling and priority and fairness on, and the limits of a kube-apiserver.
func NewFeatures() Features {
	return Features{Profiling: true, PriorityAndFairness: true, MaxRequestsInFlight: 400, MaxMutatingRequestsInFlight: 200}
}

// AddFlags adds the flags of all features.
func (f *Features) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&f.Profiling, "profiling", f.Profiling, "Serve profiles under /debug/pprof/ to users who may get that path.")
	fs.BoolVar(&f.ContentionProfiling, "contention-profiling", f.ContentionProfiling, "With --profiling, also record where goroutines block.")
	fs.BoolVar(&f.PriorityAndFairness, "enable-priority-and-fairness", f.PriorityAndFairness,
		"Queue requests by the cluster's flow schemas instead of refusing those above a fixed number.")
	fs.IntVar(&f.MaxRequestsInFlight, "max-requests-inflight", f.MaxRequestsInFlight, "How many reading requests may run at once.")
	fs.IntVar(&f.MaxMutatingRequestsInFlight, "max-mutating-requests-inflight", f.MaxMutatingRequestsInFlight, "How many writing requests may run at once.")
}

// Validate reports every mistake.
func (f *Features) Validate() []error {
	var errs []error
	if f.ContentionProfiling && !f.Profiling {
		errs = append(errs, fmt.Errorf("--contention-profiling has no effect without --profiling; set both"))
	}
	if f.MaxRequestsInFlight < 0 || f.MaxMutatingRequestsInFlight < 0 {
		errs = append(errs, fmt.Errorf("--max-requests-inflight and --max-mutating-requests-inflight must not be negative; 0 lifts the limit"))
	}
	if f.PriorityAndFairness && f.MaxRequestsInFlight+f.MaxMutatingRequestsInFlight <= 0 {
		errs = append(errs, fmt.Errorf("--enable-priority-and-fairness needs something to share; set --max-requests-inflight or --max-mutating-requests-inflight above 0"))
	}
	return errs
}

// ApplyTo sets profiling and the limits. Priority and fairness needs a client and is the server's own to set up.
func (f *Features) ApplyTo(config *genericapiserver.Config) {
	config.EnableProfiling = f.Profiling
	config.EnableContentionProfiling = f.ContentionProfiling
	config.MaxRequestsInFlight = f.MaxRequestsInFlight
	config.MaxMutatingRequestsInFlight = f.MaxMutatingRequestsInFlight
}
