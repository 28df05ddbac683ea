// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllermanager

import (
	"net"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/clusteridentity"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/internal/options"
)

// DefaultPort is where the controllers' server listens unless told otherwise.
const DefaultPort = 6445

// Options configure the controllers of one process.
type Options struct {
	// Serving is for health checks and metrics.
	Serving       options.Serving
	ClientCAFile  string
	TokenTTL      time.Duration
	Authorization options.Authorization
	// Profiling serves /debug/pprof/, behind authorization.
	Profiling  bool
	Host       options.Host
	Leadership options.Leadership
	Groups     Groups
	// ClusterIdentity follows the identity of the cluster, if someone has a use for it, such as metrics.
	ClusterIdentity *clusteridentity.Source
	// Gates are Annex's own feature gates.
	Gates featuregate.MutableVersionedFeatureGate
}

// NewOptions returns a server on 127.0.0.1:6445 and the defaults of all controllers.
func NewOptions() *Options {
	return &Options{
		Serving:       options.NewServing("", net.IPv4(127, 0, 0, 1), DefaultPort),
		TokenTTL:      options.NewAuthentication().TokenTTL,
		Authorization: options.NewAuthorization(),
		Profiling:     true,
		Leadership:    options.NewLeadership(),
		Groups:        NewGroups(),
		Gates:         gates.New(),
	}
}

// AddFlags adds all flags, in the sections that Kubernetes' own components have.
func (o *Options) AddFlags(sections *cliflag.NamedFlagSets) {
	fs := sections.FlagSet("cluster")
	o.Host.AddFlags(fs)
	fs.Lookup("kubeconfig").Usage = "Kubeconfig file of the cluster to work on. Without it the pod's service account is used."
	o.Serving.AddFlags(sections.FlagSet("secure serving"))
	sections.FlagSet("features").BoolVar(&o.Profiling, "profiling", o.Profiling, "Serve profiles under /debug/pprof/ to users who may get that path.")
	sections.FlagSet("authentication").StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile,
		"File with the authorities of client certificates of those who read /metrics, in PEM. Without it they need a token of the cluster.")
	o.Authorization.AddFlags(sections.FlagSet("authorization"))
	fs = sections.FlagSet("leader election")
	o.Leadership.AddFlags(fs)
	fs.BoolVar(&o.Leadership.MarkWrites, "leader-elect-mark-writes", o.Leadership.MarkWrites,
		"Name the term of leadership as field manager of writes, so that a ValidatingAdmissionPolicy can tell late ones. Each term then has an entry of its own in managedFields.")
	o.Groups.AddFlags(sections)
	gates.AddFlag(sections.FlagSet("feature gates"), o.Gates)
}

// Validate reports every mistake.
func (o *Options) Validate() []error {
	errs := o.Serving.Validate()
	if err := options.ValidateCAFile("client-ca-file", o.ClientCAFile); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.Authorization.Validate()...)
	errs = append(errs, o.Leadership.Validate()...)
	return append(errs, o.Groups.Validate()...)
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
