// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"net"

	"github.com/spf13/pflag"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/options"
)

// DefaultPort is where the extension apiserver listens unless told otherwise.
const DefaultPort = 6444

// Options configure the extension apiserver.
type Options struct {
	Serving        options.Serving
	Host           options.Host
	Authentication options.Authentication
	Authorization  options.Authorization
	Audit          options.Audit
	Features       options.Features
}

// NewOptions returns the defaults of a server that runs alone: all addresses, port 6444.
func NewOptions() *Options {
	return &Options{
		Serving:        options.NewServing("", net.IPv4zero, DefaultPort),
		Authentication: options.NewAuthentication(),
		Authorization:  options.NewAuthorization(),
		Audit:          options.NewAudit(),
		Features:       options.NewFeatures(),
	}
}

// AddFlags adds all flags of the server.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.Serving.AddFlags(fs)
	o.Host.AddFlags(fs)
	o.Authentication.AddFlags(fs)
	o.Authorization.AddFlags(fs)
	o.Audit.AddFlags(fs)
	o.Features.AddFlags(fs)
}

// Validate reports every mistake.
func (o *Options) Validate() []error {
	errs := o.Serving.Validate()
	errs = append(errs, o.Authentication.Validate()...)
	errs = append(errs, o.Authorization.Validate()...)
	errs = append(errs, o.Audit.Validate()...)
	errs = append(errs, o.Features.Validate()...)
	return errs
}

// CompletedOptions are options that have been found valid; only Complete makes them.
type CompletedOptions struct {
	*completedOptions
}

type completedOptions struct {
	Options
	host *rest.Config
}

// Complete validates the options and reads the host's kubeconfig. The error lists every mistake.
func (o *Options) Complete() (CompletedOptions, error) {
	errs := o.Validate()
	host, err := o.Host.ClientConfig()
	if err != nil {
		errs = append(errs, err)
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return CompletedOptions{}, err
	}
	return CompletedOptions{&completedOptions{Options: *o, host: host}}, nil
}
