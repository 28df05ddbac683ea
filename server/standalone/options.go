// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"fmt"
	"io"
	"net"
	"path/filepath"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/clusteridentity"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/controllermanager"
	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/extension"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/internal/options"
)

const (
	defaultDataDir = ".annex"
	defaultPort    = 6443
)

// Options configure everything that runs in the process.
type Options struct {
	// DataDir holds the store, the certificates and the kubeconfig.
	DataDir string
	// Etcd is embedded in DataDir unless servers are named.
	Etcd *etcd.Options
	// ControlPlane and Extension may be refined in code; where they listen and whom they trust is settled here.
	ControlPlane *controlplane.Options
	Extension    *extension.Options
	// Controllers are those of the extension, which run as one of the host's clients.
	Controllers controllermanager.Groups
	// ClusterIdentity follows the identity of the cluster, if someone has a use for it, such as metrics.
	ClusterIdentity *clusteridentity.Source
	// Leadership is for all controllers, those of the control plane included.
	Leadership options.Leadership
	// Lifetimes are for how long the certificates of the process are valid. They are renewed while it runs, after two thirds of that.
	Lifetimes pki.Lifetimes
	// Gates are Annex's own feature gates, for all parts.
	Gates featuregate.MutableVersionedFeatureGate
	// Out is told what happens, in plain lines.
	Out io.Writer
}

// NewOptions returns a control plane on 127.0.0.1:6443, an extension apiserver on 127.0.0.1:6444 and data in .annex.
func NewOptions() *Options {
	o := &Options{
		DataDir:      defaultDataDir,
		Etcd:         etcd.NewOptions(),
		ControlPlane: controlplane.NewOptions(),
		Extension:    extension.NewOptions(),
		Controllers:  controllermanager.NewGroups(),
		Leadership:   options.NewLeadership(),
		Lifetimes:    pki.NewLifetimes(),
		Gates:        gates.New(),
		Out:          io.Discard,
	}
	o.ControlPlane.Serving = options.NewServing("", loopback(), defaultPort)
	o.Extension.Serving = options.NewServing("extension-", loopback(), extension.DefaultPort)
	o.Extension.Serving.PortFlag = "extension-port"
	return o
}

// AddFlags adds the few flags of the quick start, in sections. Each part has more of its own when it runs alone.
func (o *Options) AddFlags(sections *cliflag.NamedFlagSets) {
	sections.FlagSet("generic").StringVar(&o.DataDir, "data-dir", o.DataDir, "Directory for the store, the certificates and the kubeconfig. It is made where it does not exist.")
	fs := sections.FlagSet("secure serving")
	fs.IPVar(&o.ControlPlane.Serving.BindAddress, "bind-address", o.ControlPlane.Serving.BindAddress,
		"IP address on which the control plane listens. The extension apiserver is reached through it, and listens on 127.0.0.1 only.")
	o.ControlPlane.Serving.AddPortFlag(fs)
	o.Extension.Serving.AddPortFlag(fs)
	fs.Lookup(o.ControlPlane.Serving.PortFlag).Usage = "Port on which the control plane serves HTTPS; 0 for any free one."
	fs.Lookup(o.Extension.Serving.PortFlag).Usage = "Port on which the extension apiserver serves HTTPS to the control plane; 0 for any free one."
	o.Etcd.AddFlags(sections.FlagSet("etcd"))
	o.ControlPlane.Audit.AddFlags(sections.FlagSet("auditing"))
	fs = sections.FlagSet("feature gates")
	gates.AddFlag(fs, o.Gates)
	o.Extension.Lifecycle.AddFlags(fs)
	fs = sections.FlagSet("cluster identity")
	o.Controllers.ClusterID.AddFlags(fs)
	o.Extension.Hub.AddFlags(fs)
	o.Leadership.AddFlags(sections.FlagSet("leader election"))
	o.ControlPlane.AddQuotaFlag(sections.FlagSet("misc"))
}

// Validate reports every mistake.
func (o *Options) Validate() []error {
	var errs []error
	if o.DataDir == "" {
		errs = append(errs, fmt.Errorf("--data-dir is empty; name a directory"))
	}
	errs = append(errs, o.Etcd.Validate()...)
	errs = append(errs, o.ControlPlane.Serving.Validate()...)
	errs = append(errs, o.ControlPlane.Audit.Validate()...)
	errs = append(errs, o.Extension.Serving.Validate()...)
	errs = append(errs, o.Controllers.Validate()...)
	errs = append(errs, o.Leadership.Validate()...)
	errs = append(errs, o.Extension.Lifecycle.Validate(o.Gates)...)
	errs = append(errs, o.Extension.Hub.Validate()...)
	if one, other := o.ControlPlane.Serving.Port, o.Extension.Serving.Port; one != 0 && one == other {
		errs = append(errs, fmt.Errorf("--%s and --%s are both %d; choose different ones",
			o.ControlPlane.Serving.PortFlag, o.Extension.Serving.PortFlag, one))
	}
	return errs
}

// CompletedOptions are options that have been found valid; only Complete makes them.
type CompletedOptions struct {
	*completedOptions
}

type completedOptions struct {
	Options
	dataDir string
}

// Complete validates the options. The error lists every mistake.
func (o *Options) Complete() (CompletedOptions, error) {
	errs := o.Validate()
	dataDir, err := filepath.Abs(o.DataDir)
	if err != nil {
		errs = append(errs, fmt.Errorf("--data-dir %s: %w", o.DataDir, err))
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return CompletedOptions{}, err
	}
	return CompletedOptions{&completedOptions{Options: *o, dataDir: dataDir}}, nil
}

func loopback() net.IP { return net.IPv4(127, 0, 0, 1) }
