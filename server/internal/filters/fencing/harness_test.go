// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"maps"
	"net/http"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/kube-openapi/pkg/common"

	wire "github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/apis/node/install"
	nodev1alpha1 "github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/generated/openapi"
	nativeopenapi "github.com/kube-annex/annex/generated/openapi/native"
	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/registry/native/coordination"
	"github.com/kube-annex/annex/registry/node"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/server/internal/filters/fencing"
)

func TestMain(m *testing.M) { resourcetest.Main(m) }

var nodeBalloons = nodev1alpha1.SchemeGroupVersion.WithResource("nodeballoons")

// world is a host with Leases and a server whose writes are fenced, on one etcd.
type world struct {
	t        *testing.T
	host     *resourcetest.Server
	balloons *resourcetest.Server
	leases   coordinationclient.LeaseInterface
	registry metrics.KubeRegistry
}

// startWorld starts both; the check is made for the host. Leases are in a namespace of the test's own.
func startWorld(t *testing.T, namespace string, check func(host *rest.Config, metrics *fencing.Metrics) fencing.Check) *world {
	t.Helper()
	w := &world{t: t, registry: metrics.NewKubeRegistry()}
	counts, err := fencing.NewMetrics(w.registry.Register)
	if err != nil {
		t.Fatal(err)
	}
	hostScheme := native.Kinds{}.NewScheme()
	w.host = resourcetest.Start(t, resourcetest.Options{
		Scheme: hostScheme, Codecs: serializer.NewCodecFactory(hostScheme), Version: coordination.GroupVersion, Install: resource.Installer(coordination.Kinds()),
		Definitions: func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
			all := openapi.GetOpenAPIDefinitions(ref)
			maps.Copy(all, nativeopenapi.GetOpenAPIDefinitions(ref))
			return all
		},
	})
	scheme := resource.NewScheme(install.Install)
	w.balloons = resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme), Version: nodev1alpha1.SchemeGroupVersion, Install: node.Install,
		Definitions: openapi.GetOpenAPIDefinitions,
		Handler: func(api http.Handler, config *genericapiserver.Config) http.Handler {
			return fencing.WithTerms(api, config.Serializer, check(w.host.Config, counts))
		},
	})
	client, err := coordinationclient.NewForConfig(w.host.Config)
	if err != nil {
		t.Fatal(err)
	}
	w.leases = client.Leases(namespace)
	return w
}

func inTransaction(_ *rest.Config, metrics *fencing.Metrics) fencing.Check {
	return fencing.InTransaction(metrics)
}

// lead takes the Lease for the holder, with a Lease made anew where there is none, and returns the term.
func (w *world) lead(lease *coordinationv1.Lease, holder string) (*coordinationv1.Lease, wire.Term) {
	w.t.Helper()
	var err error
	if lease == nil {
		transitions := int32(0)
		lease, err = w.leases.Create(w.t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "leader"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions},
		}, metav1.CreateOptions{})
	} else {
		next := lease.DeepCopy()
		next.Spec.HolderIdentity = &holder
		*next.Spec.LeaseTransitions++
		lease, err = w.leases.Update(w.t.Context(), next, metav1.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return lease, wire.Current(lease)
}

// as returns a client of balloons whose writes carry the headers.
func (w *world) as(headers ...string) dynamic.ResourceInterface {
	w.t.Helper()
	config := rest.CopyConfig(w.balloons.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return withHeaders{next, headers} })
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	return client.Resource(nodeBalloons)
}

type withHeaders struct {
	next    http.RoundTripper
	headers []string
}

func (h withHeaders) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header[wire.Header] = h.headers
	return h.next.RoundTrip(request)
}

// balloon returns a valid object.
func balloon(name, cpu string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": nodev1alpha1.SchemeGroupVersion.String(), "kind": "NodeBalloon",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"balloonSize": map[string]any{"cpu": cpu}},
	}}
}

// refused returns how many late writes were counted.
func (w *world) refused() float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "annex_fencing_late_writes_refused_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	w.t.Fatal("late writes are not counted")
	return 0
}
