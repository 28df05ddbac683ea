// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/validation"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/kube-annex/annex/server/internal/options"
)

// Options are a Registration as flags say it.
type Options struct {
	Service      options.Service
	ServicePort  int
	ExternalName string
	User         string
	CAFile       string
}

// NewOptions returns the registration of a server that runs in the cluster.
func NewOptions() *Options {
	return &Options{Service: options.NewService(), ServicePort: DefaultServicePort}
}

// AddFlags adds all flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.Service.AddFlags(fs)
	fs.IntVar(&o.ServicePort, "service-port", o.ServicePort, "Port of the Service; with --external-name the one on which the extension apiserver listens there.")
	fs.StringVar(&o.ExternalName, "external-name", o.ExternalName,
		"Name of the host on which the extension apiserver runs outside the cluster, as the cluster's apiserver knows it; localhost for the same machine.")
	fs.StringVar(&o.User, "user", o.User, "Who the extension apiserver is in the cluster, where it is not the service account.")
	fs.StringVar(&o.CAFile, "ca-file", o.CAFile,
		"File with the authorities of the extension apiserver's serving certificate, in PEM. Without it the server, which then makes its certificates by itself, publishes its own.")
}

// Complete validates the options. The error lists every mistake.
func (o *Options) Complete() (Registration, error) {
	r := Registration{Service: o.Service, ServicePort: int32(o.ServicePort), ExternalName: o.ExternalName, User: o.User}
	errs := o.Service.Validate()
	for range validation.IsValidPortNum(o.ServicePort) {
		errs = append(errs, fmt.Errorf("--service-port %d is not a port; choose one from 1 to 65535", o.ServicePort))
	}
	switch {
	case o.ExternalName == "":
		if o.ServicePort != DefaultServicePort {
			errs = append(errs, errors.New("--service-port is for --external-name only: the Service in the cluster has port 443"))
		}
	case net.ParseIP(o.ExternalName) != nil:
		errs = append(errs, fmt.Errorf("--external-name %s is an address; give a DNS name, such as localhost", o.ExternalName))
	default:
		for _, problem := range validation.IsDNS1123Subdomain(o.ExternalName) {
			errs = append(errs, fmt.Errorf("--external-name %q is not a DNS name: %s", o.ExternalName, problem))
		}
	}
	if err := options.ValidateCAFile("ca-file", o.CAFile); err != nil {
		errs = append(errs, err)
	} else if o.CAFile != "" {
		if r.CABundle, err = os.ReadFile(o.CAFile); err != nil {
			errs = append(errs, fmt.Errorf("--ca-file cannot be read: %w", err))
		}
	}
	return r, utilerrors.NewAggregate(errs)
}
