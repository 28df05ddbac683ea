// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// KubeconfigFlag is the flag that names the hub.
const KubeconfigFlag = "clusterset-hub-kubeconfig"

// Options say where the hub is.
type Options struct {
	// Kubeconfig is a file with the address and credentials. Empty means that ids are not reserved anywhere.
	Kubeconfig string
	// Config is used instead of a file where it is set.
	Config *rest.Config
}

// AddFlags adds --clusterset-hub-kubeconfig.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, KubeconfigFlag, o.Kubeconfig,
		"Kubeconfig file of the hub: a cluster with Annex at which the clusters of a set reserve their ids, so that no two members have the same. "+
			"Its user needs the rights of the role annex-clusterset-member there. Without it a cluster joins a set unchecked. "+
			"The extension apiserver and the controllers of a cluster need the same.")
}

// Enabled tells whether there is a hub.
func (o *Options) Enabled() bool { return o.Kubeconfig != "" || o.Config != nil }

// Validate reports every mistake.
func (o *Options) Validate() []error {
	if !o.Enabled() {
		return nil
	}
	if _, err := o.ClientConfig(); err != nil {
		return []error{err}
	}
	return nil
}

// ClientConfig returns the client configuration of the hub. It reads files and never dials.
func (o *Options) ClientConfig() (*rest.Config, error) {
	if o.Config != nil {
		return rest.CopyConfig(o.Config), nil
	}
	// client-go takes an empty file, and one without a current context, for a server on localhost:8080.
	if info, err := os.Stat(o.Kubeconfig); err != nil {
		return nil, fmt.Errorf("--%s: %w; give the kubeconfig file of the hub", KubeconfigFlag, err)
	} else if info.IsDir() {
		return nil, fmt.Errorf("--%s: %s is a directory; give the kubeconfig file of the hub", KubeconfigFlag, o.Kubeconfig)
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err == nil {
		// Certificates inside the file are only parsed when the first request is made: look at them now, where the file can be named.
		_, err = rest.TLSConfigFor(config)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s %s cannot be used: %w; give the complete kubeconfig file of the hub", KubeconfigFlag, o.Kubeconfig, err)
	}
	return config, nil
}
