// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kube-openapi/pkg/handler3"

	"github.com/kube-annex/annex/apis/gatedfield"
	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/server/extension"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/openapi"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
)

const (
	nodeDocument = "apis/node.k8s.io/v1alpha1"
	deadlineText = "is how many seconds a balloon that grows"

	// follows is how soon the control plane publishes what the extension apiserver has begun to publish.
	follows = 2 * time.Second
	// slow is how much longer it may take here, where many servers share few processors. Upstream's polling takes a minute.
	slow = 5
)

// The OpenAPI that the control plane publishes follows that of the extension apiserver, and kubectl explain works all the time.
func TestGatedFieldThroughControlPlane(t *testing.T) {
	t.Parallel()
	on, off := func(string) bool { return true }, func(string) bool { return false }
	publisher := openapi.NewPublisher(gates.Gated{Fields: []gatedfield.Field{{
		Gate: "Deadlines", Kind: v1alpha1.SchemeGroupVersion.WithKind("NodeBalloon"), Path: []string{"spec", "reclaimDeadlineSeconds"},
		Model: "com.github.kube-annex.annex.apis.node.v1alpha1.NodeBalloonSpec", Property: "reclaimDeadlineSeconds",
	}}}, on)
	server := framework.Start(t, func(o *standalone.Options) { o.Extension.OpenAPI = publisher })
	published := &published{t: t, server: server}
	if _, ok := published.url(); !ok {
		t.Error("the document is not listed when the server is ready")
	}
	kubectl := framework.NewKubectl(t, root, server.Kubeconfig)
	explain := []string{"explain", "nodeballoon.spec", "--recursive"}
	kubectl.Want(t, `reclaimDeadlineSeconds`, explain...)

	stop, explaining := make(chan struct{}), sync.WaitGroup{}
	explaining.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if out, err := kubectl.Try(t, explain...); err != nil || !strings.Contains(out, "balloonSize") {
				t.Errorf("kubectl explain while the field comes and goes: %v\n%s", err, out)
			}
		}
	})
	defer explaining.Wait()
	defer close(stop)

	for _, toggle := range []struct {
		to        string
		permitted func(string) bool
		has       bool
	}{{"off", off, false}, {"on", on, true}, {"off again", off, false}} {
		before, _ := published.url()
		if touched := publisher.Publish(toggle.permitted); len(touched) != 1 {
			t.Fatalf("%s: published %v", toggle.to, touched)
		}
		// This URL is what kubectl has in its hands when the toggle comes between its questions.
		if got := published.get(before); strings.Contains(got, deadlineText) != toggle.has {
			t.Errorf("%s: the document with the hash of before has the field: %t", toggle.to, !toggle.has)
		}
		published.wantField(toggle.to, toggle.has, before)
		if has := strings.Contains(kubectl.Run(t, explain...), "reclaimDeadlineSeconds"); has != toggle.has {
			t.Errorf("%s: kubectl explain shows the field: %t, want %t", toggle.to, has, toggle.has)
		}
	}
	kubectl.Want(t, `nodeSize`, append(explain, "--output=plaintext-openapiv2")...)
}

// The extension apiserver may touch each of its APIServices, and nobody else's.
func TestEachVersionIsAnnounced(t *testing.T) {
	t.Parallel()
	var gated gates.Gated
	for _, resource := range []schema.GroupVersionResource{
		{Group: "features.k8s.io", Version: "v1alpha1", Resource: "features"},
		{Group: "multicluster.k8s.io", Version: "v1alpha1", Resource: "clusterclaims"},
		{Group: "node.k8s.io", Version: "v1alpha1", Resource: "nodeballoons"},
	} {
		gated.Resources = append(gated.Resources, gates.GatedResource{Gate: "All", GroupVersionResource: resource})
	}
	publisher := openapi.NewPublisher(gated, func(string) bool { return true })
	server := framework.Start(t, func(o *standalone.Options) { o.Extension.OpenAPI = publisher })
	changed := publisher.Publish(func(string) bool { return false })
	if diff := cmp.Diff(extension.GroupVersions(), changed, cmpopts.SortSlices(func(a, b schema.GroupVersion) bool { return a.String() < b.String() })); diff != "" {
		t.Fatalf("changed versions (-want,+got):\n%s", diff)
	}
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	var touched []string
	_ = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, slow*follows, true, func(ctx context.Context) (bool, error) {
		list, err := server.Dynamic.Resource(services).List(ctx, metav1.ListOptions{})
		touched = nil
		for i := range list.Items {
			if _, ok := list.Items[i].GetAnnotations()[openapi.ChangedAnnotation]; ok {
				touched = append(touched, list.Items[i].GetName())
			}
		}
		return len(touched) == len(changed), err
	})
	if diff := cmp.Diff(extension.APIServiceNames(), touched, cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Errorf("touched APIServices (-want,+got):\n%s", diff)
	}
}

// published is what the control plane publishes.
type published struct {
	t      *testing.T
	server *framework.Server
}

func (p *published) get(url string) string {
	p.t.Helper()
	body, err := p.server.Kubernetes.RESTClient().Get().RequestURI(url).DoRaw(p.t.Context())
	if err != nil {
		p.t.Errorf("%s: %v", url, err)
	}
	return string(body)
}

// url returns where the list says that the document is.
func (p *published) url() (string, bool) {
	p.t.Helper()
	list := handler3.OpenAPIV3Discovery{}
	if err := json.Unmarshal([]byte(p.get("/openapi/v3")), &list); err != nil {
		p.t.Error(err)
	}
	entry, ok := list.Paths[nodeDocument]
	return entry.ServerRelativeURL, ok
}

// wantField waits until both versions have the field, or have not, and v3 lists the document with another hash than before.
func (p *published) wantField(toggle string, want bool, before string) {
	p.t.Helper()
	began := time.Now()
	for _, version := range []struct {
		name    string
		follows func() bool
	}{
		{"v3", func() bool {
			url, _ := p.url()
			return url != before && strings.Contains(p.get(url), deadlineText) == want
		}},
		{"v2", func() bool { return strings.Contains(p.get("/openapi/v2"), deadlineText) == want }},
	} {
		err := wait.PollUntilContextTimeout(p.t.Context(), 10*time.Millisecond, slow*follows, true, func(context.Context) (bool, error) { return version.follows(), nil })
		if err != nil {
			p.t.Errorf("%s: OpenAPI %s has the field: %t, after %s", toggle, version.name, !want, time.Since(began))
		}
		p.t.Logf("%s: OpenAPI %s followed within %s", toggle, version.name, time.Since(began))
	}
}
