// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/etcd"
)

// startExternalEtcd starts an etcd as others run it, with etcd's own limit of 1.5 MiB a request.
func startExternalEtcd(t *testing.T) (endpoint string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "e") //nolint:usetesting // its paths are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	socket := url.URL{Scheme: "unix", Path: filepath.Join(dir, "s")}
	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "etcd")
	config.ListenPeerUrls = nil
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{socket}, []url.URL{socket}
	config.TickMs, config.ElectionMs = 25, 250
	config.EnableGRPCGateway = false
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	server, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	return socket.String()
}

// sizable is a kind with a field that takes text of any length.
type sizable struct {
	resource schema.GroupVersionResource
	cluster  bool
	// object has NAME where its name belongs, and TEXT.
	object string
}

func sizables() map[string]sizable {
	return map[string]sizable{
		"native": {
			schema.GroupVersionResource{Version: "v1", Resource: "events"}, false,
			`{"apiVersion":"v1","kind":"Event","metadata":{"name":"NAME"},"involvedObject":{"namespace":"default"},"message":"TEXT"}`,
		},
		"custom": {
			widgets, false,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME"},"spec":{"text":"TEXT"}}`,
		},
		"definition": {
			schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, true,
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"NAMEs.example.com"},"spec":{"group":"example.com","scope":"Cluster",` +
				`"names":{"plural":"NAMEs","singular":"NAME","kind":"NAME","listKind":"NAMEList"},` +
				`"versions":[{"name":"v1","served":false,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","description":"TEXT"}}}]}}`,
		},
		"API service": {
			schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, true,
			`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.NAME.example.com"},"spec":{"group":"NAME.example.com","version":"v1",` +
				`"groupPriorityMinimum":1,"versionPriority":1,"service":{"namespace":"default","name":"s"},"caBundle":"TEXT"}}`,
		},
	}
}

// of returns the client of the kind.
func (s sizable) of(client dynamic.Interface) dynamic.ResourceInterface {
	if s.cluster {
		return client.Resource(s.resource)
	}
	return client.Resource(s.resource).Namespace("default")
}

// with returns an object with so much text in it.
func (s sizable) with(t *testing.T, name string, size int) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON([]byte(strings.NewReplacer("NAME", name, "TEXT", strings.Repeat("a", size)).Replace(s.object))); err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	large = 9 << 18         // more than an etcd takes that is not told otherwise, base64 or not
	huge  = 3<<20 + 100<<10 // more than a request's body may have
)

func TestObjectsAtTheirLimits(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	client := anything(t, h.Admin())
	createTextWidgetDefinition(t, h.Admin())
	t.Run("names and labels", func(t *testing.T) {
		t.Parallel()
		checkMetadata(t, client)
	})
	for name, kind := range sizables() {
		t.Run("size of "+name, func(t *testing.T) {
			t.Parallel()
			kind.checkSize(t, client, "large", large, false)
			kind.checkSize(t, client, "huge", huge, true)
		})
	}
}

func TestObjectsTooLargeForAnExternalEtcd(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	endpoint := startExternalEtcd(t)
	h.AdjustEtcd = func(o *etcd.Options) { o.Servers = []string{endpoint} }
	h.Start()
	createTextWidgetDefinition(t, h.Admin())
	for name, kind := range sizables() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind.checkSize(t, anything(t, h.Admin()), "large", large, true)
		})
	}
}

// checkSize creates an object that is too large, and makes another one so.
func (s sizable) checkSize(t *testing.T, client dynamic.Interface, name string, size int, refused bool) {
	t.Helper()
	ctx, objects := t.Context(), s.of(client)
	wantSize := func(verb string, err error) {
		t.Helper()
		switch {
		case !refused && err != nil:
			t.Errorf("%s: %s: %v", name, verb, shortened(err))
		case refused && apierrors.ReasonForError(err) != metav1.StatusReasonRequestEntityTooLarge:
			t.Errorf("%s: %s: got %v, want 413", name, verb, shortened(err))
		}
	}
	_, err := objects.Create(ctx, s.with(t, "created"+name, size), metav1.CreateOptions{})
	wantSize("create", err)
	if _, err := objects.Create(ctx, s.with(t, "changed"+name, 8), metav1.CreateOptions{}); err != nil {
		t.Errorf("%s: create a small one: %v", name, err)
		return
	}
	sized := s.with(t, "changed"+name, size)
	eventually(t, func() error { // Controllers write to some of them.
		var current *unstructured.Unstructured
		if current, err = objects.Get(ctx, sized.GetName(), metav1.GetOptions{}); err != nil {
			return err
		}
		update := sized.DeepCopy()
		update.SetResourceVersion(current.GetResourceVersion())
		if _, err = objects.Update(ctx, update, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
			return err
		}
		return nil
	})
	wantSize("update", err)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": sized.Object["spec"], "message": sized.Object["message"]})
	if err != nil {
		t.Fatal(err)
	}
	_, err = objects.Patch(ctx, sized.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	wantSize("patch", err)
	sized.SetLabels(map[string]string{"a": "c"})
	_, err = objects.Apply(ctx, sized.GetName(), sized, metav1.ApplyOptions{FieldManager: "test", Force: true})
	wantSize("apply", err)
}

func shortened(err error) string {
	text := fmt.Sprint(err)
	return text[:min(len(text), 300)]
}

// createTextWidgetDefinition defines widgets that keep any text in their spec, and waits for them.
func createTextWidgetDefinition(t *testing.T, config *rest.Config) {
	t.Helper()
	definition := &unstructured.Unstructured{}
	err := definition.UnmarshalJSON([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{` +
		`"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},` +
		`"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"text":{"type":"string"}}}}}}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	client := anything(t, config)
	if _, err := sizables()["definition"].of(client).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := client.Resource(widgets).List(t.Context(), metav1.ListOptions{})
		return err
	})
}

// checkMetadata creates what just fits, and one more of it.
func checkMetadata(t *testing.T, client dynamic.Interface) {
	t.Helper()
	long := func(n int) string { return strings.Repeat("a", n) }
	for what, tc := range map[string]struct {
		fits, more func(*unstructured.Unstructured)
	}{
		"name": {
			func(o *unstructured.Unstructured) { o.SetName(long(253)) }, func(o *unstructured.Unstructured) { o.SetName(long(254)) },
		},
		"label": {
			func(o *unstructured.Unstructured) {
				o.SetLabels(map[string]string{long(253) + "/" + long(63): long(63)})
			},
			func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"a": long(64)}) },
		},
		"label's name": {
			func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{long(63): ""}) },
			func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{long(64): ""}) },
		},
		"label's prefix": {
			func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{long(253) + "/a": ""}) },
			func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{long(254) + "/a": ""}) },
		},
		"annotations": {
			func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"a": long(256<<10 - 1)}) },
			func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"a": long(256 << 10)}) },
		},
		"finalizer": {
			func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/" + long(63)}) },
			func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/" + long(64)}) },
		},
		"many labels": {
			func(o *unstructured.Unstructured) { o.SetLabels(manyLabels(2000)) },
			func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"-": ""}) },
		},
	} {
		for _, name := range []string{"native", "custom"} {
			kind := sizables()[name]
			objects := kind.of(client)
			create := func(change func(*unstructured.Unstructured)) error {
				object := kind.with(t, "limits", 1)
				change(object)
				_, err := objects.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			}
			if err := create(tc.fits); err != nil {
				t.Errorf("%s: the longest %s there may be: %s", name, what, shortened(err))
			}
			// Events of the legacy group may have any name.
			if err := create(tc.more); !apierrors.IsInvalid(err) && (what != "name" || name != "native") {
				t.Errorf("%s: a longer %s: got %v, want 422", name, what, shortened(err))
			}
		}
	}
	kind := sizables()["native"]
	generated := kind.with(t, "limits", 1)
	generated.SetName("")
	generated.SetGenerateName(long(300))
	if created, err := client.Resource(kind.resource).Namespace("default").Create(t.Context(), generated, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil || len(created.GetName()) > 63 {
		t.Errorf("a name generated from much: %v, %v", created, shortened(err))
	}
	var status *apierrors.StatusError
	_, err := client.Resource(kind.resource).Namespace("default").Get(t.Context(), long(20000), metav1.GetOptions{})
	if !errors.As(err, &status) || status.ErrStatus.Code != http.StatusNotFound {
		t.Errorf("reading by a very long name: got %v, want 404", shortened(err))
	}
}

func manyLabels(n int) map[string]string {
	labels := map[string]string{}
	for i := range n {
		labels[fmt.Sprintf("label-%d", i)] = "x"
	}
	return labels
}
