// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/generated/clientset/versioned"
)

// DefaultRetention is for how many minor versions a Feature is kept after its gate is gone.
const DefaultRetention = 3

// Options say which server it is, and what its features are.
type Options struct {
	// Component is the name of the server, and Instance tells this replica from all others; a replica that takes the place of another
	// after a restart should have the same. Together they make the name of a Lease, so they have at most 240 lower case letters,
	// digits, '-' and '.'.
	Component, Instance string
	// Version is the server's, such as v1.37.1.
	Version string
	// Namespace is where the Features are. For features in several namespaces, run an Engine for each.
	Namespace string
	// LeaseNamespace is where the Leases of this server's replicas are: Namespace, which is the default, or featuregate.LeaseNamespace for
	// the server of Features itself. The server needs all rights on Leases there. In Namespace and featuregate.LeaseNamespace, where the
	// signs of life of reporters are, it needs to read Leases.
	LeaseNamespace string
	// Features is what the server knows.
	Features []Feature
	// Client is for Features, and Leases for the Leases of replicas and reporters.
	Client versioned.Interface
	Leases coordinationclient.LeasesGetter
	// Retention is for how many minor versions of the component a Feature is kept that no replica knows any more; 0 means
	// DefaultRetention, and a negative number without end.
	Retention int
	// Timings is how long things take; zero ones have their defaults.
	Timings Timings
	// Clock is for tests; nil means the clock of the machine.
	Clock clock.WithTicker
}

// Timings is how long things take. All replicas have the same.
type Timings struct {
	// LeaseDuration is how long a replica is live without renewing its Lease; 30 s. It is rounded up to whole seconds in the Lease.
	LeaseDuration time.Duration
	// RenewInterval is how often it renews it; 10 s. For as long after its start a replica begins nothing that changes stored data and
	// turns nothing round, since it may not have seen all others yet.
	RenewInterval time.Duration
	// AnswerWindow is how long reporters have to answer a question; 60 s, and more if there are so many that they would answer at more
	// than 200 a second.
	AnswerWindow time.Duration
	// WriteGrace is how long a server without access to the storage transaction may still write, after the state of a feature changed:
	// 10 s without news of Features, and the longest request; 70 s. Negative means that all servers compare the state in the transaction.
	WriteGrace time.Duration
	// RetryBase and RetryMax are the least and the most time from a failed attempt at a task to the next; 1 s and 5 min.
	RetryBase, RetryMax time.Duration
	// ProgressInterval is how often progress is written at most; 1 s.
	ProgressInterval time.Duration
	// RecheckInterval is how often reporters are asked again that disagree with a feature that is On or Off; 5 min.
	RecheckInterval time.Duration
	// UseRetention is how long a use stays in status.uses while no live reporter is of its component and version; 1 h.
	// It is a sixtieth of that while the list is nearly full.
	UseRetention time.Duration
	// Poll is the interval of the check for expired Leases; 1 s.
	Poll time.Duration
}

func (t Timings) withDefaults() Timings {
	for _, d := range []struct {
		of    *time.Duration
		value time.Duration
	}{
		{&t.LeaseDuration, 30 * time.Second},
		{&t.RenewInterval, 10 * time.Second},
		{&t.AnswerWindow, time.Minute},
		{&t.WriteGrace, 70 * time.Second},
		{&t.RetryBase, time.Second},
		{&t.RetryMax, 5 * time.Minute},
		{&t.ProgressInterval, time.Second},
		{&t.RecheckInterval, 5 * time.Minute},
		{&t.UseRetention, time.Hour},
		{&t.Poll, time.Second},
	} {
		if *d.of == 0 {
			*d.of = d.value
		}
	}
	return t
}

// window is how long a question to so many reporters stays open at least.
func (t Timings) window(reporters int) time.Duration {
	const perSecond = 200
	return max(t.AnswerWindow, t.WriteGrace, time.Duration(reporters)*time.Second/perSecond)
}

// Validate returns everything that is wrong with the options.
func (o *Options) Validate() []error {
	var errs []error
	if o.Component == "" || o.Instance == "" {
		errs = append(errs, fmt.Errorf("options Component %q and Instance %q: set both", o.Component, o.Instance))
	}
	for _, problem := range validation.IsValidLabelValue(o.Component) {
		errs = append(errs, fmt.Errorf("option Component %q: %s", o.Component, problem))
	}
	for _, problem := range validation.IsDNS1123Subdomain(o.leaseName()) {
		errs = append(errs, fmt.Errorf("options Component and Instance make the Lease %q: %s", o.leaseName(), problem))
	}
	for _, problem := range validation.IsDNS1123Label(o.Namespace) {
		errs = append(errs, fmt.Errorf("option Namespace %q: %s", o.Namespace, problem))
	}
	versions := map[string]string{"option Version": o.Version}
	seen := map[string]bool{}
	for i := range o.Features {
		f := &o.Features[i]
		errs = append(errs, f.validate()...)
		if seen[f.Name] {
			errs = append(errs, fmt.Errorf("feature %s is listed twice; list it once", f.Name))
		}
		seen[f.Name] = true
		if f.Version != "" {
			versions["version of feature "+f.Name] = f.Version
		}
	}
	for what, v := range versions {
		if _, err := version.ParseGeneric(v); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: set one such as v1.37.1: %w", what, v, err))
		}
	}
	if o.LeaseNamespace != o.Namespace && o.LeaseNamespace != featuregate.LeaseNamespace {
		errs = append(errs, fmt.Errorf("option LeaseNamespace %q: leave it empty for Namespace, or set it to %s", o.LeaseNamespace, featuregate.LeaseNamespace))
	}
	if o.Client == nil || o.Leases == nil {
		errs = append(errs, errors.New("options Client and Leases: set both"))
	}
	if t := o.Timings.withDefaults(); t.RenewInterval*2 > t.LeaseDuration {
		errs = append(errs, fmt.Errorf("timing RenewInterval %s: set at most half of LeaseDuration, which is %s", t.RenewInterval, t.LeaseDuration))
	}
	return errs
}

func (o *Options) complete() error {
	o.LeaseNamespace = cmp.Or(o.LeaseNamespace, o.Namespace)
	if err := utilerrors.NewAggregate(o.Validate()); err != nil {
		return err
	}
	o.Timings = o.Timings.withDefaults()
	if o.Retention == 0 {
		o.Retention = DefaultRetention
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return nil
}

// leaseSuffix sets the names of replicas' Leases apart from those of reporters.
const leaseSuffix = "-lifecycle"

func (o *Options) leaseName() string {
	if o.LeaseNamespace != "" && o.LeaseNamespace != o.Namespace {
		return o.Component + "-" + o.Instance + "-" + o.Namespace + leaseSuffix
	}
	return o.Component + "-" + o.Instance + leaseSuffix
}
