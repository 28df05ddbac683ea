// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"testing"
	"time"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/test/framework"
)

const patience = 30 * time.Second

// host is a control plane on an etcd of its own.
type host struct {
	*framework.ControlPlane
	t *testing.T
}

func startHost(t *testing.T, adjust func(*controlplane.Options)) *host {
	t.Helper()
	return &host{framework.StartControlPlane(t, adjust), t}
}

// newHost returns a host that does not run yet.
func newHost(t *testing.T, adjust func(*controlplane.Options)) *host {
	t.Helper()
	return &host{framework.NewControlPlane(t, adjust), t}
}

func core(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	return must[kubernetes.Interface](t)(kubernetes.NewForConfig(config))
}

func definitions(t *testing.T, config *rest.Config) apiextensionsclient.Interface {
	t.Helper()
	return must[apiextensionsclient.Interface](t)(apiextensionsclient.NewForConfig(config))
}

func services(t *testing.T, config *rest.Config) aggregatorclient.Interface {
	t.Helper()
	return must[aggregatorclient.Interface](t)(aggregatorclient.NewForConfig(config))
}

func anything(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	return must[dynamic.Interface](t)(dynamic.NewForConfig(config))
}

func must[T any](t *testing.T) func(T, error) T { return framework.Must[T](t) }

// eventually waits until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	framework.Eventually(t, patience, check)
}
