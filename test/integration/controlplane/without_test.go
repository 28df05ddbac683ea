// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/server/controlplane"
)

// switchable are the native groups, each with a kind of it and the definition of that in OpenAPI.
var switchable = map[string]struct {
	version    schema.GroupVersion
	resource   string
	definition string
}{
	"core":                  {schema.GroupVersion{Version: "v1"}, "secrets", "io.k8s.api.core.v1.Secret"},
	"authentication":        {schema.GroupVersion{Group: "authentication.k8s.io", Version: "v1"}, "tokenreviews", "io.k8s.api.authentication.v1.TokenReview"},
	"authorization":         {schema.GroupVersion{Group: "authorization.k8s.io", Version: "v1"}, "subjectaccessreviews", "io.k8s.api.authorization.v1.SubjectAccessReview"},
	"events":                {schema.GroupVersion{Group: "events.k8s.io", Version: "v1"}, "events", "io.k8s.api.events.v1.Event"},
	"rbac":                  {schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}, "roles", "io.k8s.api.rbac.v1.Role"},
	"admissionregistration": {schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}, "validatingadmissionpolicies", "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy"},
	"certificates":          {schema.GroupVersion{Group: "certificates.k8s.io", Version: "v1"}, "certificatesigningrequests", "io.k8s.api.certificates.v1.CertificateSigningRequest"},
	"storagemigration":      {schema.GroupVersion{Group: "storagemigration.k8s.io", Version: "v1"}, "storageversionmigrations", "io.k8s.api.storagemigration.v1.StorageVersionMigration"},
	"coordination":          {schema.GroupVersion{Group: "coordination.k8s.io", Version: "v1"}, "leases", "io.k8s.api.coordination.v1.Lease"},
	"flowcontrol":           {schema.GroupVersion{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}, "flowschemas", "io.k8s.api.flowcontrol.v1.FlowSchema"},
}

func TestGroupsCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	for name, tc := range switchable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t, func(o *controlplane.Options) { o.DisabledResources = []schema.GroupResource{{Group: tc.version.Group}} })
			client := core(t, h.Admin())
			path := "/apis/" + tc.version.String()
			if tc.version.Group == "" {
				path = "/api/v1"
			}
			if _, err := client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context()); !apierrors.IsNotFound(err) {
				t.Errorf("discovery of what is switched off: got %v, want 404", err)
			}
			if found := served(t, client); slices.ContainsFunc(found, func(r schema.GroupVersionResource) bool { return r.GroupVersion() == tc.version }) {
				t.Errorf("%s is still in discovery: %v", tc.version, found)
			} else if len(found) < 8 {
				t.Errorf("more is gone than was switched off: %v", found)
			}
			documents := openAPI(t, client)
			if strings.Contains(documents, `"`+tc.definition+`"`) {
				t.Errorf("%s is still in OpenAPI", tc.definition)
			}
			if _, err := listed(t, h, tc.version.WithResource(tc.resource)); !apierrors.IsNotFound(err) {
				t.Errorf("a request for what is switched off: got %v, want 404", err)
			}
		})
	}
}

func TestKindsCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	secrets := schema.GroupResource{Resource: "secrets"}
	h := startHost(t, func(o *controlplane.Options) { o.DisabledResources = []schema.GroupResource{secrets} })
	client := core(t, h.Admin())
	found := served(t, client)
	for resource, want := range map[string]bool{"secrets": false, "configmaps": true, "namespaces": true} {
		if got := slices.Contains(found, schema.GroupVersionResource{Version: "v1", Resource: resource}); got != want {
			t.Errorf("%s in discovery: got %t, want %t", resource, got, want)
		}
	}
	documents := openAPI(t, client)
	if strings.Contains(documents, `"io.k8s.api.core.v1.Secret"`) || !strings.Contains(documents, `"io.k8s.api.core.v1.ConfigMap"`) {
		t.Error("OpenAPI has Secret, or lacks ConfigMap")
	}
}

func TestUnknownKindsCannotBeSwitchedOff(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	o := h.RawOptions()
	o.DisabledResources = []schema.GroupResource{{Resource: "pods"}}
	if _, err := o.Complete(); err == nil || !strings.Contains(err.Error(), `there is no native kind "pods" in the group ""`) {
		t.Errorf("got %v, want an error that names pods", err)
	}
}

func TestControllersCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	h := startHost(t, func(o *controlplane.Options) { o.DisabledControllers = []string{"flow-control-objects"} })
	client := core(t, h.Admin())
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "served"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Another controller has done its work, and this one has not.
	eventually(t, func() error {
		_, err := client.CoreV1().ServiceAccounts("served").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	if list, err := client.FlowcontrolV1().FlowSchemas().List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("%d flow schemas were made, %v", len(list.Items), err)
	}
	o := h.RawOptions()
	o.DisabledControllers = []string{"pods"}
	if _, err := o.Complete(); err == nil || !strings.Contains(err.Error(), "there is no controller pods to do without; there are [remote-availability") {
		t.Errorf("got %v, want an error that names the controllers there are", err)
	}
}

// TestControllersRunWithoutLeases has the controllers work that campaign for a Lease otherwise.
func TestControllersRunWithoutLeases(t *testing.T) {
	t.Parallel()
	h := startHost(t, func(o *controlplane.Options) {
		o.DisabledResources = []schema.GroupResource{{Group: "coordination.k8s.io"}}
	})
	client := core(t, h.Admin())
	eventually(t, func() error {
		_, err := client.FlowcontrolV1().FlowSchemas().Get(t.Context(), "catch-all", metav1.GetOptions{})
		return err
	})
}

// served returns the resources in discovery.
func served(t *testing.T, client kubernetes.Interface) []schema.GroupVersionResource {
	t.Helper()
	_, lists, err := client.Discovery().ServerGroupsAndResourcesWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []schema.GroupVersionResource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			found = append(found, version.WithResource(resource.Name))
		}
	}
	return found
}

// openAPI returns the document of version 2 and all of version 3, one after the other.
func openAPI(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	get := func(path string) []byte {
		raw, err := client.Discovery().RESTClient().Get().RequestURI(path).SetHeader("Accept", "application/json").DoRaw(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return raw
	}
	var root struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(get("/openapi/v3"), &root); err != nil {
		t.Fatal(err)
	}
	all := get("/openapi/v2")
	for _, document := range root.Paths {
		all = append(all, get(document.ServerRelativeURL)...)
	}
	return string(all)
}

func listed(t *testing.T, h *host, resource schema.GroupVersionResource) (int, error) {
	t.Helper()
	list, err := anything(t, h.Admin()).Resource(resource).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	return len(list.Items), nil
}
