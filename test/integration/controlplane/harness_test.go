// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/test/framework"
)

const patience = time.Minute

func TestMain(m *testing.M) { framework.Main(m) }

// host is a control plane on an etcd of its own.
type host struct {
	*framework.ControlPlane
	t *testing.T
}

func startHost(t *testing.T, adjust func(*controlplane.Options)) *host {
	t.Helper()
	return &host{framework.StartControlPlane(t, adjust), t}
}

// sharedHost returns the host of all tests that change nothing that others see.
func sharedHost(t *testing.T) *host {
	t.Helper()
	return &host{framework.SharedControlPlane(), t}
}

// namespace creates a namespace of the test's own.
func (h *host) namespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	return must[*corev1.Namespace](t)(core(t, h.Admin()).CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})).Name
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
