// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	featuresinstall "github.com/kube-annex/annex/apis/features/install"
	"github.com/kube-annex/annex/apis/gatedfield"
	multiclusterinstall "github.com/kube-annex/annex/apis/multicluster/install"
	nodeinstall "github.com/kube-annex/annex/apis/node/install"
	"github.com/kube-annex/annex/apis/node/v1alpha1"
	generatedopenapi "github.com/kube-annex/annex/generated/openapi"
	"github.com/kube-annex/annex/registry/node"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/openapi"
)

func TestMain(m *testing.M) { resourcetest.Main(m) }

const (
	models       = "com.github.kube-annex.annex.apis.node.v1alpha1."
	nodeDocument = "apis/node.k8s.io/v1alpha1"

	v2Protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	v3Protobuf = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// The gates of the tests.
const (
	deadlines  = "Deadlines"  // a field of a simple type
	conditions = "Conditions" // a field that alone refers to a type
	wishes     = "Wishes"     // a required field
	balloons   = "Balloons"   // the resource
)

var allGates = sets.New(deadlines, conditions, wishes, balloons)

func gated() gates.Gated {
	kind := v1alpha1.SchemeGroupVersion.WithKind("NodeBalloon")
	return gates.Gated{
		Fields: []gatedfield.Field{
			{Gate: deadlines, Kind: kind, Path: []string{"spec", "reclaimDeadlineSeconds"}, Model: models + "NodeBalloonSpec", Property: "reclaimDeadlineSeconds"},
			{Gate: conditions, Kind: kind, Path: []string{"status", "conditions"}, Model: models + "NodeBalloonStatus", Property: "conditions"},
			{Gate: wishes, Kind: kind, Path: []string{"spec"}, Model: models + "NodeBalloon", Property: "spec"},
		},
		Resources: []gates.GatedResource{{Gate: balloons, GroupVersionResource: v1alpha1.SchemeGroupVersion.WithResource("nodeballoons")}},
	}
}

func allBut(off ...string) func(string) bool {
	return allGates.Difference(sets.New(off...)).Has
}

// server is a generic apiserver with NodeBalloons and a publisher.
type server struct {
	testing.TB
	*resourcetest.Server
	publisher *openapi.Publisher
}

func start(t testing.TB, permitted func(string) bool) *server {
	t.Helper()
	publisher := openapi.NewPublisher(gated(), permitted)
	return &server{TB: t, publisher: publisher, Server: serve(t, publisher, publisher.Install)}
}

// install returns what the publisher says to a server with NodeBalloons.
func install(t testing.TB, publisher *openapi.Publisher) (said error) {
	t.Helper()
	serve(t, publisher, func(server *genericapiserver.GenericAPIServer) error {
		said = publisher.Install(server)
		return nil
	})
	return said
}

func serve(t testing.TB, publisher *openapi.Publisher, installed func(*genericapiserver.GenericAPIServer) error, before ...resourcetest.Group) *resourcetest.Server {
	t.Helper()
	scheme := resource.NewScheme(nodeinstall.Install, featuresinstall.Install, multiclusterinstall.Install)
	return resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme), Definitions: generatedopenapi.GetOpenAPIDefinitions,
		Version: v1alpha1.SchemeGroupVersion, Install: node.Install, Before: before,
		Configure: func(config *genericapiserver.Config) {
			openapi.Apply(config, "Test", generatedopenapi.GetOpenAPIDefinitions, scheme)
			publisher.ApplyTo(config)
		},
		Installed: installed,
	})
}

// answer is what the server said.
type answer struct {
	status int
	header http.Header
	body   string
}

// get asks without following redirects. Headers are names and values in turn.
func (s *server) get(path string, headers ...string) answer {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.Config.Host+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func (s *server) document(path, accept string) answer {
	s.Helper()
	got := s.get(path, "Accept", accept)
	if got.status != http.StatusOK || got.header.Get("Content-Type") != accept || got.header.Get("Etag") == "" {
		s.Fatalf("%s as %s: got %d %v", path, accept, got.status, got.header)
	}
	return got
}

// urls returns what the list of documents says.
func (s *server) urls() map[string]string {
	s.Helper()
	list := handler3.OpenAPIV3Discovery{}
	if err := json.Unmarshal([]byte(s.get("/openapi/v3").body), &list); err != nil {
		s.Fatal(err)
	}
	urls := map[string]string{}
	for name, entry := range list.Paths {
		urls[name] = entry.ServerRelativeURL
	}
	return urls
}

// schemas returns the models of a document of either version, and reports references to what is not in it.
func (s *server) schemas(path string) map[string]spec.Schema {
	s.Helper()
	body := s.document(path, "application/json").body
	var document struct {
		Definitions, Parameters map[string]json.RawMessage
		Components              struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		s.Fatal(err)
	}
	known := sets.New[string]()
	schemas := map[string]spec.Schema{}
	add := func(root string, raw map[string]json.RawMessage) {
		for name, model := range raw {
			known.Insert(root + name)
			var decoded spec.Schema
			if err := json.Unmarshal(model, &decoded); err != nil {
				s.Fatal(err)
			}
			schemas[name] = decoded
		}
	}
	add("#/definitions/", document.Definitions)
	add("#/components/schemas/", document.Components.Schemas)
	for name := range document.Parameters {
		known.Insert("#/parameters/" + name)
	}
	for part := range strings.SplitSeq(body, `"$ref":"`) {
		if ref, _, _ := strings.Cut(part, `"`); strings.HasPrefix(ref, "#/") && !known.Has(ref) {
			s.Errorf("%s refers to %s, which it does not have", path, ref)
		}
	}
	return schemas
}

func mustBe(t testing.TB, what string, got, want []schema.GroupVersion) {
	t.Helper()
	if len(got) != len(want) || len(got) == 1 && got[0] != want[0] {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
