// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/util/proto"

	"github.com/kube-annex/annex/test/framework"
)

// wantMergedDocuments wants what the second control plane has, beside what the first one has, in each way in which it can be asked for.
func wantMergedDocuments(t *testing.T, w *world) {
	t.Helper()
	const own, others, first = "/apis/apiregistration.k8s.io/v1/apiservices", "/apis/" + secondGroup + "/v1/gadgets", "how large it was at first"
	// Other servers have it changed meanwhile.
	var merged answer
	framework.Eventually(t, patience, func() error {
		merged = get(t, w.Config, "/openapi/v2", "Accept", "application/json")
		if err := errors.Join(has(merged.body, others), has(merged.body, own), has(merged.body, first)); err != nil {
			return err
		}
		if again := get(t, w.Config, "/openapi/v2", "Accept", "application/json", "If-None-Match", merged.header.Get("Etag")); again.status != http.StatusNotModified {
			return fmt.Errorf("the same document again: got %d, want 304", again.status)
		}
		zipped := get(t, w.Config, "/openapi/v2", "Accept", "application/json", "Accept-Encoding", "gzip")
		reader, err := gzip.NewReader(strings.NewReader(zipped.body))
		if err != nil {
			return fmt.Errorf("compressed: %w", err)
		}
		if content, err := io.ReadAll(reader); err != nil || string(content) != merged.body {
			return fmt.Errorf("compressed: %d bytes, want %d: %w", len(content), len(merged.body), err)
		}
		return nil
	})
	if _, ok := models(t, w.Config)["com.example.second.v1.Gadget"]; !ok {
		t.Error("kubectl does not find the model of the second control plane's kind")
	}
	// Both have all that is built in; that is the first one's.
	if count := strings.Count(merged.body, `"io.k8s.api.core.v1.ConfigMap":`); count != 1 {
		t.Errorf("there are %d definitions of a ConfigMap", count)
	}

	framework.Eventually(t, patience, func() error {
		list := get(t, w.Config, "/openapi/v3")
		return errors.Join(has(list.body, `"apis/`+secondGroup+`/v1"`), has(list.body, `"apis/apiregistration.k8s.io/v1"`), has(list.body, `"api/v1"`))
	})
	for _, accept := range []string{"application/json", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"} {
		// Until the second one has told that it has a document, there is one that is converted from v2.
		framework.Eventually(t, patience, func() error {
			document := get(t, w.Config, "/openapi/v3/apis/"+secondGroup+"/v1", "Accept", accept)
			if document.status != http.StatusOK || !strings.Contains(document.body, first) || document.header.Get("Content-Type") != accept {
				return fmt.Errorf("the second one's document as %s: got %d %s", accept, document.status, document.header.Get("Content-Type"))
			}
			again := get(t, w.Config, "/openapi/v3/apis/"+secondGroup+"/v1", "Accept", accept, "If-None-Match", document.header.Get("Etag"))
			if again.status != http.StatusNotModified {
				return fmt.Errorf("the second one's document again: got %d, want 304", again.status)
			}
			return nil
		})
	}
	wantFirstsOwn(t, w)
}

// wantFirstsOwn wants the documents of what the first one has itself to be its own, although others have such documents, too.
func wantFirstsOwn(t *testing.T, w *world) {
	t.Helper()
	list := handler3.OpenAPIV3Discovery{}
	if err := json.Unmarshal([]byte(get(t, w.Config, "/openapi/v3").body), &list); err != nil {
		t.Fatal(err)
	}
	if got := get(t, w.Config, list.Paths["api/v1"].ServerRelativeURL); got.status != http.StatusOK || !strings.Contains(got.body, "io.k8s.api.core.v1.ConfigMap") {
		t.Errorf("%s: got %d", list.Paths["api/v1"].ServerRelativeURL, got.status)
	}
	if got := get(t, w.Config, "/openapi/v3/apis/nobody.at.all/v1"); got.status != http.StatusNotFound {
		t.Errorf("a document that nobody has: got %d, want 404", got.status)
	}
}

// wantChangedDocument changes a kind of the second control plane, which says so.
func wantChangedDocument(t *testing.T, w *world, s *second) {
	t.Helper()
	const now = "how large it is now"
	definitions := s.APIExtensions.ApiextensionsV1().CustomResourceDefinitions()
	definition, err := definitions.Get(t.Context(), "gadgets."+secondGroup, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	definition.Spec.Versions[0].Schema = schemaOf(now)
	if _, err := definitions.Update(t.Context(), definition, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		return errors.Join(has(get(t, s.Config, "/openapi/v2").body, now), has(get(t, s.Config, "/openapi/v3/apis/"+secondGroup+"/v1").body, now))
	})
	w.touch(t, "v1."+secondGroup)
	said := time.Now()
	framework.Eventually(t, patience, func() error {
		list := handler3.OpenAPIV3Discovery{}
		if err := json.Unmarshal([]byte(get(t, w.Config, "/openapi/v3").body), &list); err != nil {
			return err
		}
		return errors.Join(has(get(t, w.Config, "/openapi/v2").body, now), has(get(t, w.Config, list.Paths["apis/"+secondGroup+"/v1"].ServerRelativeURL).body, now))
	})
	t.Logf("the change was to be seen %s after it was said", time.Since(said))
}

// documented has a server publish a v2 document beside what it has else.
func documented(document string) func(*backend, http.ResponseWriter, *http.Request) {
	return func(b *backend, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi/v2" {
			_, _ = io.WriteString(w, document)
			return
		}
		b.healthy(w, r)
	}
}

// swagger is the document of a backend that has things, with a model of the name.
func swagger(b *backend, model, schema string) string {
	return fmt.Sprintf(`{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{"/apis/%s/v1/things":{"get":{"operationId":"list%s","responses":
		{"200":{"description":"OK","schema":{"$ref":"#/definitions/%s"}}}}}},"definitions":{"%s":%s}}`, b.group(), b.name, model, model, schema)
}

// models are what kubectl knows of all kinds.
func models(t *testing.T, config *rest.Config) map[string]bool {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	document, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := proto.NewOpenAPIData(document)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, name := range parsed.ListModels() {
		found[name] = true
	}
	return found
}

// testCollidingDocuments has two servers that mean different things by one name.
func testCollidingDocuments(t *testing.T, w *world) {
	ca := authority(t)
	for name, description := range map[string]string{"one": "what one means", "other": "what the other means"} {
		b := startBackend(t, w.services, name, ca)
		b.set(documented(swagger(b, "com.example.colliding.Thing", `{"type":"object","description":"`+description+`"}`)))
		w.register(t, b.group(), apiregistrationv1.ServiceReference{Namespace: namespace, Name: name}, ca.CertPEM())
	}
	framework.Eventually(t, patience, func() error {
		merged := get(t, w.Config, "/openapi/v2", "Accept", "application/json").body
		return errors.Join(has(merged, "what one means"), has(merged, "what the other means"), has(merged, "com.example.colliding.Thing_v2"))
	})
	found := models(t, w.Config)
	for _, model := range []string{"com.example.colliding.Thing", "com.example.colliding.Thing_v2"} {
		if !found[model] {
			t.Errorf("kubectl does not find the model %s", model)
		}
	}
}

// testBrokenDocuments has servers whose documents would make that of everybody unusable, and later have a good one.
func testBrokenDocuments(t *testing.T, w *world) {
	ca := authority(t)
	broken := map[string]func(*backend) string{
		"no-json":     func(*backend) string { return "<html>" },
		"cut-off":     func(b *backend) string { return swagger(b, "com.example.cut.Thing", `{}`)[:100] },
		"null":        func(*backend) string { return "null" },
		"list":        func(*backend) string { return "[]" },
		"no-paths":    func(*backend) string { return `{"swagger":"2.0","paths":null}` },
		"other-types": func(*backend) string { return `{"swagger":2,"paths":[],"definitions":"none"}` },
		"no-model": func(b *backend) string {
			return strings.Replace(swagger(b, "com.example.none.Thing", `{}`), `"definitions":{"com.example.none.Thing"`, `"definitions":{"com.example.another.Thing"`, 1)
		},
		"no-kinds": func(b *backend) string {
			return swagger(b, "com.example.kinds.Thing", `{"type":"object","x-kubernetes-group-version-kind":"none"}`)
		},
		"other-kinds": func(b *backend) string {
			return swagger(b, "io.k8s.apimachinery.pkg.apis.meta.v1.Patch", `{"description":"Patch is provided to give a concrete name and type to the Kubernetes PATCH request body.","type":"object","x-kubernetes-group-version-kind":"none"}`)
		},
		"not-of-openapi": func(b *backend) string {
			return swagger(b, "com.example.unknown.Thing", `{"type":"object","unknown":{"no":"such","field":[1]}}`)
		},
	}
	backends := map[string]*backend{}
	for name, document := range broken {
		b := startBackend(t, w.services, name, ca)
		b.set(documented(document(b)))
		w.register(t, b.group(), apiregistrationv1.ServiceReference{Namespace: namespace, Name: name}, ca.CertPEM())
		backends[name] = b
	}
	good := startBackend(t, w.services, "good", ca)
	good.set(documented(swagger(good, "com.example.good.Thing", `{"type":"object"}`)))
	w.register(t, good.group(), apiregistrationv1.ServiceReference{Namespace: namespace, Name: good.name}, ca.CertPEM())
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		w.wantAvailable(t, "v1."+backends[name].group(), apiregistrationv1.ConditionTrue, "")
	}
	framework.Eventually(t, patience, func() error {
		if !models(t, w.Config)["com.example.good.Thing"] {
			return fmt.Errorf("kubectl does not find the model of a server that is in order")
		}
		return nil
	})
	wantFirstsOwn(t, w)

	for name, b := range backends {
		b.set(documented(swagger(b, "com.example.mended."+name, `{"type":"object"}`)))
		w.touch(t, "v1."+b.group())
	}
	framework.Eventually(t, patience, func() error {
		found := models(t, w.Config)
		for name := range backends {
			if !found["com.example.mended."+name] {
				return fmt.Errorf("kubectl does not find the model of %s, whose document is good now", name)
			}
		}
		return nil
	})
	// What was good is better than nothing.
	good.set(documented("<html>"))
	w.touch(t, "v1."+good.group())
	w.wantThings(t, good.group(), "Current")
	if !models(t, w.Config)["com.example.good.Thing"] {
		t.Error("kubectl does not find the model of a server whose document was good until a moment ago")
	}
}

// testOnlyV2 has a server from before OpenAPI v3, whose document is converted.
func testOnlyV2(t *testing.T, w *world) {
	ca := authority(t)
	b := startBackend(t, w.services, "only-v2", ca)
	b.set(documented(swagger(b, "com.example.v2.Thing", `{"type":"object","description":"known in v2"}`)))
	w.register(t, b.group(), apiregistrationv1.ServiceReference{Namespace: namespace, Name: b.name}, ca.CertPEM())
	name := "apis/" + b.group() + "/v1"
	list := handler3.OpenAPIV3Discovery{}
	framework.Eventually(t, patience, func() error {
		if err := json.Unmarshal([]byte(get(t, w.Config, "/openapi/v3").body), &list); err != nil {
			return err
		}
		if list.Paths[name].ServerRelativeURL == "" {
			return fmt.Errorf("%s is not listed", name)
		}
		return nil
	})
	for _, path := range []string{list.Paths[name].ServerRelativeURL, "/openapi/v3/" + name, "/openapi/v3/" + name + "?hash=stale"} {
		got := get(t, w.Config, path, "Accept", "application/json")
		if err := errors.Join(has(got.body, `"openapi":"3.0.0"`), has(got.body, "known in v2")); err != nil || got.status != http.StatusOK {
			t.Errorf("%s: got %d %v", path, got.status, err)
		}
	}
}
