// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/controllers/restconfig"
)

// hostQPS and hostBurst limit requests to the host. They are high because every request that is not in the authorization
// cache waits for one.
const (
	hostQPS   = 200
	hostBurst = 400
)

// Host says how to reach the cluster that a server is an extension of.
type Host struct {
	// Kubeconfig is a file with the address and credentials; empty means those of the pod the server runs in.
	Kubeconfig string
	// Config is used instead of a file where it is set.
	Config *rest.Config
}

// AddFlags adds --kubeconfig.
func (h *Host) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&h.Kubeconfig, "kubeconfig", h.Kubeconfig,
		"Kubeconfig file of the cluster to extend. It needs the rights of system:auth-delegator and of extension-apiserver-authentication-reader. "+
			"Without it the pod's service account is used.")
}

// ClientConfig returns the client configuration of the host. It reads files and never dials.
func (h *Host) ClientConfig() (*rest.Config, error) {
	config, err := h.load()
	if err != nil {
		return nil, err
	}
	restconfig.RejectRedirects(config)
	config.QPS, config.Burst = hostQPS, hostBurst
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config, nil
}

func (h *Host) load() (*rest.Config, error) {
	switch {
	case h.Config != nil:
		return rest.CopyConfig(h.Config), nil
	case h.Kubeconfig == "":
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("--kubeconfig is not set and this is not a pod of a cluster; set --kubeconfig to the kubeconfig file of the cluster to extend")
		}
		if err != nil {
			return nil, fmt.Errorf("use the pod's service account: %w; or set --kubeconfig", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: h.Kubeconfig}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s cannot be used: %w; give a complete kubeconfig file", h.Kubeconfig, err)
	}
	// Certificates inside the file are only parsed when the first request is made: look at them now, where the file can be named.
	if _, err := rest.TLSConfigFor(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s has certificates that cannot be used: %w; give a complete kubeconfig file", h.Kubeconfig, err)
	}
	return config, nil
}
