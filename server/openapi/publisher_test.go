// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	features "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/apis/gatedfield"
	multicluster "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/apis/node/v1alpha1"
	apply "github.com/kube-annex/annex/generated/applyconfiguration/node/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	featuresregistry "github.com/kube-annex/annex/registry/features"
	multiclusterregistry "github.com/kube-annex/annex/registry/multicluster"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/openapi"
)

// What only one part of the documents says.
const (
	deadlineText  = "is how many seconds a balloon that grows"
	conditionText = "Condition contains details for one aspect"
	wishText      = "NodeBalloonSpec is the size that is wished for"
	quantityText  = "Quantity is a fixed-point representation of a number"
	balloonText   = "NodeBalloonList is a list of NodeBalloons"
)

var allTexts = []string{deadlineText, conditionText, wishText, quantityText, balloonText}

// documents are all forms in which what is gated is published.
var documents = []struct{ path, accept string }{
	{"/openapi/v2", "application/json"},
	{"/openapi/v2", v2Protobuf},
	{"/openapi/v3/" + nodeDocument, "application/json"},
	{"/openapi/v3/" + nodeDocument, v3Protobuf},
}

func TestPublish(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		off    []string
		absent []string
	}{
		"all permitted":             {},
		"a field":                   {off: []string{deadlines}, absent: []string{deadlineText}},
		"a type's last use":         {off: []string{conditions}, absent: []string{conditionText}},
		"a required field":          {off: []string{wishes}, absent: []string{wishText, deadlineText}},
		"two fields":                {off: []string{deadlines, conditions}, absent: []string{deadlineText, conditionText}},
		"a field of a resource":     {off: []string{wishes, balloons}, absent: allTexts},
		"a resource":                {off: []string{balloons}, absent: allTexts},
		"everything":                {off: sets.List(allGates), absent: allTexts},
		"a field of a hidden field": {off: []string{wishes, deadlines}, absent: []string{wishText, deadlineText}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Whether off from the beginning, turned off, or turned off once more.
			fromTheBeginning := start(t, allBut(tc.off...))
			wantTexts(fromTheBeginning, "from the beginning", tc.absent)
			toggled := start(t, allBut())
			for range 2 {
				toggled.publisher.Publish(allBut())
				wantTexts(toggled, "with all permitted", nil)
				toggled.publisher.Publish(allBut(tc.off...))
				wantTexts(toggled, "toggled", tc.absent)
			}
			if diff := cmp.Diff(fromTheBeginning.urls(), toggled.urls()); diff != "" {
				t.Errorf("URLs when off from the beginning and when turned off (-want,+got):\n%s", diff)
			}
			fromTheBeginning.publisher.Publish(allBut())
			wantTexts(fromTheBeginning, "turned on for the first time", nil)
		})
	}
}

// wantTexts looks for what is published in all documents.
func wantTexts(s *server, when string, absent []string) {
	s.Helper()
	for _, document := range documents {
		body := s.document(document.path, document.accept).body
		for _, text := range allTexts {
			if got, want := strings.Contains(body, text), !slices.Contains(absent, text); got != want {
				s.Errorf("%s, %s as %s: has %q: %t, want %t", when, document.path, document.accept, text, got, want)
			}
		}
		if parsed := parse(document.accept, body); parsed != nil {
			s.Errorf("%s, %s as %s: %v", when, document.path, document.accept, parsed)
		}
		if document.accept == "application/json" {
			_ = s.schemas(document.path)
		}
		if hidden := slices.Contains(absent, balloonText); strings.Contains(body, "/apis/node.k8s.io/v1alpha1/nodeballoons") == hidden {
			s.Errorf("%s, %s as %s: paths of the resource are hidden: %t, want %t", when, document.path, document.accept, !hidden, hidden)
		}
	}
}

func parse(accept, body string) error {
	switch accept {
	case v2Protobuf:
		return proto.Unmarshal([]byte(body), &openapi_v2.Document{})
	case v3Protobuf:
		return proto.Unmarshal([]byte(body), &openapi_v3.Document{})
	}
	return nil
}

func TestHiddenPropertyIsNotRequired(t *testing.T) {
	t.Parallel()
	s := start(t, allBut(wishes))
	for _, path := range []string{"/openapi/v2", "/openapi/v3/" + nodeDocument} {
		for _, want := range []bool{false, true} {
			if want {
				s.publisher.Publish(allBut())
			} else {
				s.publisher.Publish(allBut(wishes))
			}
			balloon := s.schemas(path)[models+"NodeBalloon"]
			if _, has := balloon.Properties["spec"]; has != want || slices.Contains(balloon.Required, "spec") != want {
				t.Errorf("%s, permitted %t: has property %t, required %v", path, want, has, balloon.Required)
			}
			if _, has := balloon.Properties["status"]; !has {
				t.Errorf("%s has lost status as well", path)
			}
		}
	}
}

func TestOnlyWhatChangesIsPublished(t *testing.T) {
	t.Parallel()
	s := start(t, allBut())
	var told [][]schema.GroupVersion
	s.publisher.OnChange(func(versions []schema.GroupVersion) { told = append(told, versions) })
	node := []schema.GroupVersion{v1alpha1.SchemeGroupVersion}

	before, v2 := s.urls(), s.document("/openapi/v2", "application/json").header.Get("Etag")
	mustBe(t, "the same again", s.publisher.Publish(allBut()), nil)
	mustBe(t, "turned off", s.publisher.Publish(allBut(deadlines)), node)
	mustBe(t, "turned off again", s.publisher.Publish(allBut(deadlines)), nil)
	after := s.urls()
	for name := range before {
		if changed := before[name] != after[name]; changed != (name == nodeDocument) {
			t.Errorf("%s changed: %t", name, changed)
		}
	}
	if s.document("/openapi/v2", "application/json").header.Get("Etag") == v2 {
		t.Error("the ETag of OpenAPI v2 is what it was")
	}
	mustBe(t, "turned on", s.publisher.Publish(allBut()), node)
	if diff := cmp.Diff(before, s.urls()); diff != "" {
		t.Errorf("URLs with everything permitted again (-want,+got):\n%s", diff)
	}
	if s.document("/openapi/v2", "application/json").header.Get("Etag") != v2 {
		t.Error("the ETag of OpenAPI v2 is not what it was with the same permitted")
	}
	if diff := cmp.Diff([][]schema.GroupVersion{node, node}, told); diff != "" {
		t.Errorf("who follows was told (-want,+got):\n%s", diff)
	}
}

func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	s := start(t, allBut())
	for _, document := range documents {
		s.publisher.Publish(allBut())
		etag := s.document(document.path, document.accept).header.Get("Etag")
		if got := s.get(document.path, "Accept", document.accept, "If-None-Match", etag); got.status != http.StatusNotModified || got.body != "" {
			t.Errorf("%s as %s, unchanged: got %d", document.path, document.accept, got.status)
		}
		s.publisher.Publish(allBut(deadlines))
		if got := s.get(document.path, "Accept", document.accept, "If-None-Match", etag); got.status != http.StatusOK || got.header.Get("Etag") == etag || got.body == "" {
			t.Errorf("%s as %s, changed: got %d with %s", document.path, document.accept, got.status, got.header.Get("Etag"))
		}
	}
	if got := s.get("/openapi/v2", "Accept-Encoding", "gzip"); got.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("OpenAPI v2 is not compressed: %v", got.header)
	}
}

// Server-side apply knows the field while nobody may use it, because objects in storage may have it.
func TestApplyKnowsHiddenFields(t *testing.T) {
	t.Parallel()
	s := start(t, allBut(deadlines, conditions))
	client, err := versioned.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	size := corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("2")}
	balloons := client.NodeV1alpha1().NodeBalloons()
	owner := metav1.ApplyOptions{FieldManager: "owner"}
	if _, err = balloons.Apply(t.Context(), apply.NodeBalloon("a").WithSpec(apply.NodeBalloonSpec().WithBalloonSize(size).WithReclaimDeadlineSeconds(7)), owner); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.publisher.Publish(allBut())
		s.publisher.Publish(allBut(deadlines, conditions))
	}
	other := apply.NodeBalloon("a").WithLabels(map[string]string{"example.com/by": "other"})
	got, err := balloons.Apply(t.Context(), other, metav1.ApplyOptions{FieldManager: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.ReclaimDeadlineSeconds == nil || *got.Spec.ReclaimDeadlineSeconds != 7 {
		t.Errorf("after another manager applied: %+v", got.Spec)
	}
	if got, err = balloons.Apply(t.Context(), apply.NodeBalloon("a").WithSpec(apply.NodeBalloonSpec().WithBalloonSize(size)), owner); err != nil {
		t.Fatal(err)
	}
	if got.Spec.ReclaimDeadlineSeconds != nil {
		t.Error("its owner does not apply the field anymore, and it is still there")
	}
}

func TestPublishWhileReading(t *testing.T) {
	t.Parallel()
	s := start(t, allBut())
	stop := make(chan struct{})
	var publishing, reading sync.WaitGroup
	for i := range 2 {
		publishing.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
					s.publisher.Publish(allBut([]string{deadlines, conditions, wishes, balloons}[:n%5]...))
				}
			}
		})
	}
	for _, document := range documents {
		reading.Go(func() {
			for range 5 {
				got := s.get(document.path, "Accept", document.accept)
				if err := parse(document.accept, got.body); err != nil || got.status != http.StatusOK {
					t.Errorf("%s as %s: got %d, %v", document.path, document.accept, got.status, err)
				}
			}
		})
	}
	reading.Wait()
	close(stop)
	publishing.Wait()
	s.publisher.Publish(allBut(deadlines))
	wantTexts(s, "in the end", []string{deadlineText})
}

// TestDocumentsOfSeveralGroupsAreReadAtOnce relies on the race detector: documents share maps with the definitions that they are built from.
func TestDocumentsOfSeveralGroupsAreReadAtOnce(t *testing.T) {
	t.Parallel()
	gated := gates.Gated{Resources: []gates.GatedResource{
		{Gate: "G", GroupVersionResource: features.SchemeGroupVersion.WithResource("features")},
		{Gate: "G", GroupVersionResource: multicluster.SchemeGroupVersion.WithResource("clusterclaims")},
		{Gate: "G", GroupVersionResource: v1alpha1.SchemeGroupVersion.WithResource("nodeballoons")},
	}}
	on, off := func(string) bool { return true }, func(string) bool { return false }
	publisher := openapi.NewPublisher(gated, on)
	s := &server{TB: t, publisher: publisher, Server: serve(t, publisher, publisher.Install,
		resourcetest.Group{Version: features.SchemeGroupVersion, Install: featuresregistry.Install},
		resourcetest.Group{Version: multicluster.SchemeGroupVersion, Install: multiclusterregistry.Install},
	)}
	want := map[string]string{}
	for _, resource := range gated.Resources {
		name := "apis/" + resource.Group + "/" + resource.Version
		want[name] = s.document("/openapi/v3/"+name, "application/json").body
	}
	for range 5 {
		// The server forgets what it has built.
		publisher.Publish(off)
		publisher.Publish(on)
		var reading sync.WaitGroup
		for name := range want {
			for _, accept := range []string{"application/json", v3Protobuf} {
				reading.Go(func() {
					got := s.get("/openapi/v3/"+name, "Accept", accept)
					if got.status != http.StatusOK || accept == "application/json" && got.body != want[name] {
						t.Errorf("%s as %s: got %d with %d bytes, want the %d bytes that were read alone", name, accept, got.status, len(got.body), len(want[name]))
					}
				})
			}
		}
		reading.Wait()
	}
}

func TestWhatCannotBeHiddenIsRefused(t *testing.T) {
	t.Parallel()
	kind := v1alpha1.SchemeGroupVersion.WithKind("NodeBalloon")
	absent := schema.GroupVersion{Group: "absent.example.com", Version: "v1"}
	for name, tc := range map[string]struct {
		gated gates.Gated
		want  string
	}{
		"a model that is not there": {
			gates.Gated{Fields: []gatedfield.Field{{Gate: "G", Kind: kind, Path: []string{"spec", "x"}, Model: models + "Spec", Property: "x"}}},
			"the field spec.x of NodeBalloon is gated by G, but the OpenAPI of node.k8s.io/v1alpha1 has no model " + models + "Spec with a property x",
		},
		"a property that is not there": {
			gates.Gated{Fields: []gatedfield.Field{{Gate: "G", Kind: kind, Path: []string{"spec", "x"}, Model: models + "NodeBalloonSpec", Property: "x"}}},
			"has no model " + models + "NodeBalloonSpec with a property x",
		},
		"a resource that is not there": {
			gates.Gated{Resources: []gates.GatedResource{{Gate: "G", GroupVersionResource: v1alpha1.SchemeGroupVersion.WithResource("nodeballoon")}}},
			"nodeballoon is gated by G, but node.k8s.io/v1alpha1 does not serve it",
		},
		"a group that is not served": {
			gates.Gated{
				Fields:    []gatedfield.Field{{Gate: "G", Kind: absent.WithKind("A"), Model: "A", Property: "x"}},
				Resources: []gates.GatedResource{{Gate: "G", GroupVersionResource: absent.WithResource("as")}},
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := install(t, openapi.NewPublisher(tc.gated, func(string) bool { return false }))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// BenchmarkPublish measures a toggle until all documents are ready to be read.
func BenchmarkPublish(b *testing.B) {
	s := start(b, allBut())
	for name, read := range map[string]func(){
		"publish": func() {},
		"json":    func() { s.document("/openapi/v2", "application/json"); s.urls() },
		"json+protobuf": func() {
			for _, document := range documents {
				s.document(document.path, document.accept)
			}
			s.urls()
		},
	} {
		b.Run(name, func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				if n%2 == 0 {
					s.publisher.Publish(allBut(deadlines, conditions))
				} else {
					s.publisher.Publish(allBut())
				}
				read()
			}
		})
	}
	b.Run("nothing changes", func(b *testing.B) {
		for b.Loop() {
			s.publisher.Publish(allBut())
		}
	})
}
