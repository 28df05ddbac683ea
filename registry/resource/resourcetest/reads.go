// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcetest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func restClient(t *testing.T, config *rest.Config, version schema.GroupVersion) rest.Interface {
	t.Helper()
	c := rest.CopyConfig(config)
	c.GroupVersion = &version
	c.APIPath = "/apis"
	if version.Group == "" {
		c.APIPath = genericapiserver.DefaultLegacyAPIPrefix
	}
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (k *kind) checkDiscovery(t *testing.T) {
	client, err := discovery.NewDiscoveryClientForConfig(k.server.Config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.ServerResourcesForGroupVersion(k.Resource.GroupVersion().String())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range list.APIResources {
		names = append(names, r.Name)
		if r.Name != k.Resource.Resource {
			continue
		}
		if diff := cmp.Diff(k.ShortNames, r.ShortNames); diff != "" {
			t.Errorf("short names (-want,+got):\n%s", diff)
		}
		want := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
		if verbs := slices.Sorted(slices.Values(r.Verbs)); !slices.Equal(verbs, want) {
			t.Errorf("verbs: got %v, want %v", verbs, want)
		}
		if r.Kind != k.Kind || r.Namespaced != (k.Namespace != "") {
			t.Errorf("served as %s, namespaced %t", r.Kind, r.Namespaced)
		}
	}
	if k.Status != nil && !slices.Contains(names, k.Resource.Resource+"/status") {
		t.Errorf("no /status among %v", names)
	}
}

func (k *kind) checkList(t *testing.T) {
	for i := range k.Names {
		k.create(t, i)
	}
	var paged []string
	options := metav1.ListOptions{Limit: 1}
	for range k.Names {
		page, err := k.client().List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		paged = append(paged, namesOf(page)...)
		options.Continue = page.GetContinue()
	}
	if want := slices.Sorted(slices.Values(k.Names)); !slices.Equal(paged, want) || options.Continue != "" {
		t.Errorf("pages of one: got %v (continue %q), want %v", paged, options.Continue, want)
	}

	table := &metav1.Table{}
	err := k.rest.Get().NamespaceIfScoped(k.Namespace, k.Namespace != "").Resource(k.Resource.Resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(table)
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, column := range table.ColumnDefinitions {
		columns = append(columns, column.Name)
	}
	if diff := cmp.Diff(k.Columns, columns); diff != "" {
		t.Errorf("columns (-want,+got):\n%s", diff)
	}
	if len(table.Rows) != len(k.Names) {
		t.Errorf("rows: got %d, want %d", len(table.Rows), len(k.Names))
	}
	for _, row := range table.Rows {
		if len(row.Cells) != len(columns) {
			t.Errorf("a row has %d cells for %d columns: %v", len(row.Cells), len(columns), row.Cells)
		}
	}
}

func (k *kind) checkSelectors(t *testing.T) {
	obj := k.create(t, 0)
	k.create(t, 1)
	if k.Status != nil {
		obj.Object["status"] = deepCopy(k.Status)
		if _, err := k.client().UpdateStatus(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	selectors := map[string]bool{"metadata.name=" + k.Names[0]: true, "metadata.name=" + k.Names[1]: false}
	for selector, matches := range k.Selectable {
		selectors[selector] = matches
	}
	for selector, matches := range selectors {
		list, err := k.client().List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			t.Errorf("field selector %s: %v", selector, err)
			continue
		}
		if got := slices.Contains(namesOf(list), k.Names[0]); got != matches {
			t.Errorf("field selector %s: matches %t, want %t", selector, got, matches)
		}
	}
	if _, err := k.client().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nonsense=1"}); err == nil {
		t.Errorf("an unknown field selector was accepted")
	}
	list, err := k.client().List(t.Context(), metav1.ListOptions{LabelSelector: "resourcetest=" + k.Names[0]})
	if err != nil {
		t.Fatal(err)
	}
	if got := namesOf(list); !slices.Equal(got, k.Names[:1]) {
		t.Errorf("label selector: got %v, want %v", got, k.Names[:1])
	}
}

func (k *kind) checkWatch(t *testing.T) {
	list, err := k.client().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := k.client().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), TimeoutSeconds: ptr(int64(30))})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	created := k.create(t, 0)
	created.SetLabels(map[string]string{"resourcetest": "seen"})
	updated, err := k.client().Update(t.Context(), created, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.client().Delete(t.Context(), k.Names[0], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		select {
		case event := <-w.ResultChan():
			if event.Type != want {
				t.Fatalf("got event %s, want %s: %v", event.Type, want, event.Object)
			}
			if got := event.Object.(*unstructured.Unstructured); want == watch.Modified && got.GetResourceVersion() != updated.GetResourceVersion() {
				t.Errorf("MODIFIED has resourceVersion %s, want %s", got.GetResourceVersion(), updated.GetResourceVersion())
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no %s event within 10 s", want)
		}
	}
}

// checkStoredBytes reads etcd directly: objects are protobuf under <prefix>/<group>/<resource>/.
func (k *kind) checkStoredBytes(t *testing.T) {
	k.create(t, 0)
	key := k.server.Prefix + "/" + prefixOf(k.Resource.GroupResource()) + "/"
	response, err := k.server.Etcd.Get(t.Context(), key, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if len(response.Kvs) != 1 {
		t.Fatalf("%d keys below %s, want 1", len(response.Kvs), key)
	}
	if value := response.Kvs[0].Value; !bytes.HasPrefix(value, []byte("k8s\x00")) {
		t.Errorf("stored bytes are not protobuf: %q", value[:min(len(value), 40)])
	}
}

func ptr[V any](v V) *V { return &v }
