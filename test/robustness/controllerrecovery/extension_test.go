// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/test/framework/cluster"
)

const (
	// replicaProgram and extensionProgram are the first argument of this binary where it is a server.
	replicaProgram, extensionProgram = "upkeep-replica", "upkeep-extension"

	extensionGroup = "extension.upkeep.example.com"
	// extensionHost is the name of the extension server in its certificate.
	extensionHost = "extension.default.svc"
)

var (
	parts       = schema.GroupVersionResource{Group: extensionGroup, Version: "v1", Resource: "parts"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// serve runs a control plane that resolves Services, as `annex controlplane` does not, or the extension server.
func serve(program string, args []string) error {
	o, store := controlplane.NewOptions(), etcd.NewOptions()
	var sections cliflag.NamedFlagSets
	o.AddFlags(&sections)
	store.AddFlags(sections.FlagSet("etcd"))
	flags := pflag.NewFlagSet(program, pflag.ContinueOnError)
	for _, section := range sections.FlagSets {
		flags.AddFlagSet(section)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.ServiceResolver = byPort{}
	if program == extensionProgram {
		// The replicas have the controllers, and serve everything else.
		o.DisableAggregator, o.DisableCustomResources, o.AdditionalGroups = true, true, []native.Group{partsGroup()}
		o.DisabledResources = []schema.GroupResource{{Resource: "configmaps"}, {Group: leases.Group, Resource: leases.Resource}}
		o.DisabledControllers = []string{
			"flow-control-objects", "namespace-deletion", "default-accounts", "token-secrets", "garbage-collection", "certificate-signer",
			"certificate-cleaner", "quota", "storage-migration", "policy-status", "role-aggregation",
		}
	}
	completed, err := o.Complete()
	if err != nil {
		return err
	}
	completedStore, err := store.Complete("")
	if err != nil {
		return err
	}
	ctx := context.Background()
	backend, err := completedStore.Start(ctx)
	if err != nil {
		return err
	}
	defer backend.Stop()
	return controlplane.New(completed, backend).Run(ctx)
}

// byPort resolves each Service to its port on this host.
type byPort struct{}

func (byPort) ResolveEndpoint(_, _ string, port int32) (*url.URL, error) {
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(loopback, strconv.Itoa(int(port)))}, nil
}

// extension is the server of the aggregated kind. It stores parts in the etcd of the replicas.
type extension struct {
	*replica
	service *unstructured.Unstructured
	// leftovers are removed by the next round, while the kind is registered.
	leftovers []leftover
}

// startExtension starts the extension server.
func (w *world) startExtension(t testing.TB, dir, binary, servers string, shared *cluster.ControlPlaneIdentity) {
	t.Helper()
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := shared.Serving.Serving("extension", extensionHost, loopback)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{extensionProgram, "--etcd-servers=" + servers, "--bind-address=" + loopback, "--secure-port=" + strconv.Itoa(port)}, shared.Flags...)
	args = append(args, "--tls-cert-file="+pair.CertFile, "--tls-private-key-file="+pair.KeyFile)
	w.extension = &extension{replica: &replica{name: "extension", log: filepath.Join(dir, "extension.log"), binary: binary, args: args}}
	w.extension.service = described(apiServices, "APIService", "", "v1."+extensionGroup, map[string]any{"spec": map[string]any{
		"group": extensionGroup, "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(10),
		"caBundle": base64.StdEncoding.EncodeToString(shared.Serving.CertPEM()),
		"service":  map[string]any{"namespace": "default", "name": "extension", "port": int64(port)},
	}})
	t.Cleanup(w.extension.kill)
	if err := w.extension.launch(); err != nil {
		t.Fatal(err)
	}
}

// register creates the APIService of the extension server and waits until all replicas serve its kind.
func (q *requests) register(ctx context.Context) error {
	q.note("the APIService of the extension server is created")
	if _, _, err := q.create(ctx, apiServices, q.extension.service); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return q.served(ctx, parts)
}

// unregister deletes the APIService of the extension server and waits until no replica serves its kind.
func (q *requests) unregister(ctx context.Context) error {
	q.note("the APIService of the extension server is deleted")
	service, err := q.get(ctx, apiServices, "", q.extension.service.GetName())
	if err != nil {
		return err
	}
	if err := q.remove(ctx, apiServices, service, ""); err != nil {
		return err
	}
	return q.absent(ctx, parts)
}

// Part is an object of the extension server.
type Part struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// PartList is a list of parts.
type PartList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Part `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (p *Part) DeepCopyObject() runtime.Object {
	out := *p
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *PartList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Part))
	}
	return &out
}

// OpenAPIModelName is the name of the type's definition.
func (Part) OpenAPIModelName() string { return "com.example.upkeep.v1.Part" }

// OpenAPIModelName is the name of the type's definition.
func (PartList) OpenAPIModelName() string { return "com.example.upkeep.v1.PartList" }

func partsGroup() native.Group {
	kind := resource.Kind[*Part]{
		Plural: parts.Resource, Singular: "part", NewList: func() runtime.Object { return &PartList{} },
	}
	return native.Group{Version: parts.GroupVersion(), Kinds: []resource.Served{kind.Served()}, Definitions: partDefinitions}
}

func partDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	of := func(name string) spec.Schema { return spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(name)}} }
	text := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"string"}}}
	define := func(properties map[string]spec.Schema, uses ...string) common.OpenAPIDefinition {
		properties["apiVersion"], properties["kind"] = text, text
		return common.OpenAPIDefinition{
			Schema: spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: properties}}, Dependencies: uses,
		}
	}
	part, object, list := Part{}.OpenAPIModelName(), metav1.ObjectMeta{}.OpenAPIModelName(), metav1.ListMeta{}.OpenAPIModelName()
	item := of(part)
	items := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"array"}, Items: &spec.SchemaOrArray{Schema: &item}}}
	return map[string]common.OpenAPIDefinition{
		part:                          define(map[string]spec.Schema{"metadata": of(object)}, object),
		PartList{}.OpenAPIModelName(): define(map[string]spec.Schema{"metadata": of(list), "items": items}, list, part),
	}
}

// serveIfAsked runs a server instead of the tests where the first argument names one.
func serveIfAsked() {
	if len(os.Args) < 2 || os.Args[1] != replicaProgram && os.Args[1] != extensionProgram {
		return
	}
	if err := serve(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
