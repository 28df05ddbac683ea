// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

const (
	day = 24 * time.Hour
	// shortest is for tests; passes are not made more often than that allows.
	shortest = time.Second
)

// Options configure serving certificates that renew themselves.
type Options struct {
	// Directory keeps the authorities. Empty means a Secret of the host.
	Directory string
	// Lifetime and AuthorityLifetime are how long certificates and their authorities are valid. Both are renewed after two thirds of it.
	Lifetime, AuthorityLifetime time.Duration
}

// NewOptions returns a month for certificates and a year for authorities.
func NewOptions() Options {
	return Options{Lifetime: 30 * day, AuthorityLifetime: 365 * day}
}

// AddFlags adds all flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Directory, "cert-dir", o.Directory,
		"Directory for the authorities of the serving certificates, where --tls-cert-file is not set. "+
			"Without it they are in the Secret that annex register makes, which all replicas share; or below --data-dir, if that and --kubeconfig are set.")
	fs.DurationVar(&o.Lifetime, "serving-cert-lifetime", o.Lifetime,
		"How long a serving certificate is valid, where --tls-cert-file is not set. It is renewed after two thirds of that.")
	fs.DurationVar(&o.AuthorityLifetime, "serving-ca-lifetime", o.AuthorityLifetime,
		"How long an authority of serving certificates is valid, where --tls-cert-file is not set. It gets a successor after two thirds of that.")
}

// Validate reports every mistake.
func (o *Options) Validate() []error {
	var errs []error
	if o.Lifetime < shortest {
		errs = append(errs, fmt.Errorf("--serving-cert-lifetime %s is too short; give at least %s", o.Lifetime, shortest))
	}
	if o.AuthorityLifetime < 2*o.Lifetime {
		errs = append(errs, fmt.Errorf("--serving-ca-lifetime %s is too short; give at least twice --serving-cert-lifetime, %s", o.AuthorityLifetime, 2*o.Lifetime))
	}
	return errs
}

// interval is how long a pass waits for the next one.
func (o *Options) interval() time.Duration {
	return min(max(o.Lifetime/50, shortest/50), 10*time.Second)
}

// settling is how long an authority is only announced.
func (o *Options) settling() time.Duration {
	return min(o.AuthorityLifetime/10, time.Minute)
}
