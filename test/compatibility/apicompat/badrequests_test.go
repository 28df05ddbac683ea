// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/kube-annex/annex/test/framework/poll"
)

// badCRD is of the things that bad requests are about; they keep what their schema does not know out.
const badCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.bad.example.com"},"spec":{
"group":"bad.example.com","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"data":{"type":"object","additionalProperties":{"type":"string"}}}}}}]}}`

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// badTarget is a resource that is sent bad requests.
type badTarget struct {
	collection string
	// object has %s where its name belongs and %s where further fields do.
	object string
	// wrongType is a merge patch with a field of another type.
	wrongType string
}

func (b badTarget) named(name, more string) []byte { return fmt.Appendf(nil, b.object, name, more) }

func badTargets() map[string]badTarget {
	return map[string]badTarget{
		"configmaps": {
			"/api/v1/namespaces/verdicts/configmaps",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{"a":"b"}%s}`, `{"data":5}`,
		},
		"legacy events": {
			"/api/v1/namespaces/verdicts/events",
			`{"apiVersion":"v1","kind":"Event","metadata":{"name":"%s"},"involvedObject":{"namespace":"verdicts"}%s}`, `{"involvedObject":5}`,
		},
		"newer events": {
			"/apis/events.k8s.io/v1/namespaces/verdicts/events",
			`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"newer-%s"},"eventTime":"2026-01-02T03:04:05.000006Z","type":"Normal","reason":"r",` +
				`"action":"a","reportingController":"c","reportingInstance":"i","regarding":{"namespace":"verdicts"}%s}`, `{"regarding":5}`,
		},
		"leases": {
			"/apis/coordination.k8s.io/v1/namespaces/verdicts/leases",
			`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"%s"},"spec":{"holderIdentity":"h"}%s}`, `{"spec":{"leaseDurationSeconds":"x"}}`,
		},
		"custom resources": {
			"/apis/bad.example.com/v1/namespaces/verdicts/things",
			`{"apiVersion":"bad.example.com/v1","kind":"Thing","metadata":{"name":"%s"},"data":{"a":"b"}%s}`, `{"data":5}`,
		},
		"definitions": {
			definitionsPath,
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]ss.bad.example.com"},"spec":{"group":"bad.example.com","scope":"Cluster",` +
				`"names":{"plural":"%[1]ss","singular":"%[1]s","kind":"K%[1]s","listKind":"K%[1]sList"},"versions":[{"name":"v1","served":false,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}%[2]s}`,
			`{"spec":5}`,
		},
		"API services": {
			"/apis/apiregistration.k8s.io/v1/apiservices",
			`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.%[1]s.bad.example.com"},"spec":{"group":"%[1]s.bad.example.com","version":"v1",` +
				`"groupPriorityMinimum":1,"versionPriority":1,"insecureSkipTLSVerify":true,"service":{"namespace":"verdicts","name":"s"}}%[2]s}`, `{"spec":5}`,
		},
	}
}

// TestBadRequests sends what no server can take, and wants a clear refusal: the code that kube-apiserver has for it.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	makeThings(t)
	for name, target := range badTargets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, bad := range slices.Concat(badBodies(target), badFields(target), badPatches(target), badQueries(target), badDeletions(target)) {
				t.Run(bad.name, bad.check)
			}
		})
	}
}

// makeThings has both servers serve the custom resource, and everything that bad requests change.
func makeThings(t *testing.T) {
	t.Helper()
	for _, s := range []*server{kube, annex} {
		requests := []request{{method: http.MethodPost, path: definitionsPath, body: []byte(badCRD)}}
		for _, target := range badTargets() {
			requests = append(requests, request{method: http.MethodPost, path: target.collection, body: target.named("there", "")})
		}
		for _, r := range requests {
			wantCreated(t, s, r)
		}
		t.Cleanup(func() { clearThings(t, s) })
	}
}

// wantCreated waits until the resource is served.
func wantCreated(t *testing.T, s *server, r request) {
	t.Helper()
	poll.Eventually(t, startTimeout, s.name+" serves "+r.path, func(ctx context.Context) error {
		a, err := s.ask(ctx, r)
		if err == nil && a.code == http.StatusNotFound {
			return errors.New(a.text)
		}
		if err != nil || a.code != http.StatusCreated {
			return poll.Permanent(errors.Join(err, fmt.Errorf("%d %s", a.code, a.text)))
		}
		return nil
	})
}

func clearThings(t *testing.T, s *server) {
	for name, target := range badTargets() {
		if name != "definitions" {
			mustDelete(t, s, target.collection+"/"+target.nameOf("there"))
		}
	}
	mustDelete(t, s, definitionsPath+"/things.bad.example.com")
	mustDelete(t, s, definitionsPath+"/theres.bad.example.com")
}

func mustDelete(t *testing.T, s *server, path string) {
	a, err := s.ask(context.Background(), request{method: http.MethodDelete, path: path})
	if err != nil || a.code >= http.StatusBadRequest {
		t.Errorf("%s: delete %s: %d %s %v", s.name, path, a.code, a.text, err)
	}
}

// nameOf returns what an object is really named.
func (b badTarget) nameOf(name string) string {
	_, rest, _ := strings.Cut(string(b.named(name, "")), `"metadata":{"name":"`)
	full, _, _ := strings.Cut(rest, `"`)
	return full
}

// badRequest is sent to both servers, which must refuse it in the same way, or take it both.
type badRequest struct {
	name string
	request
	// want are the codes that are clear enough.
	want []int
}

func (b badRequest) check(t *testing.T) {
	var answers [2]answer
	for i, s := range []*server{kube, annex} {
		a, err := s.ask(t.Context(), b.request)
		if err != nil {
			t.Fatal(err)
		}
		a.to = b.name
		if a.code < http.StatusBadRequest {
			a.object, a.text = nil, ""
		}
		answers[i] = a
	}
	if complaint := differences(answers[:1], answers[1:]); complaint != "" {
		t.Error(complaint)
	}
	if !slices.Contains(b.want, answers[1].code) {
		t.Errorf("%d %s, want one of %v", answers[1].code, answers[1].text, b.want)
	}
}

// TestProtobufOfCustomResources sends what makes kube-apiserver break the connection: it looks for the object that it could not decode.
func TestProtobufOfCustomResources(t *testing.T) {
	t.Parallel()
	wantCreated(t, annex, request{method: http.MethodPost, path: definitionsPath, body: []byte(strings.ReplaceAll(badCRD, "bad.example.com", "proto.example.com"))})
	t.Cleanup(func() { mustDelete(t, annex, definitionsPath+"/things.proto.example.com") })
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		r := request{method: method, path: "/apis/proto.example.com/v1/namespaces/verdicts/things", contentType: "application/vnd.kubernetes.protobuf", body: []byte("k8s\x00hello")}
		if method == http.MethodPut {
			r.path += "/x"
		}
		poll.Eventually(t, startTimeout, method+" is answered with 415", func(ctx context.Context) error {
			a, err := annex.ask(ctx, r)
			if err == nil && a.code == http.StatusUnsupportedMediaType && a.object["reason"] == "UnsupportedMediaType" {
				return nil
			}
			refused := errors.Join(err, fmt.Errorf("%d %s", a.code, a.text))
			// The definition may not be established yet.
			if err == nil && a.code == http.StatusNotFound {
				return refused
			}
			return poll.Permanent(refused)
		})
	}
}

// dryRun is part of all requests that might be taken.
func dryRun(more ...string) url.Values {
	query := url.Values{"dryRun": {"All"}}
	for i := 0; i+1 < len(more); i += 2 {
		query.Set(more[i], more[i+1])
	}
	return query
}

func badBodies(target badTarget) []badRequest {
	send := func(name, contentType, body string, want ...int) badRequest {
		return badRequest{name, request{method: http.MethodPost, path: target.collection, query: dryRun(), contentType: contentType, body: []byte(body)}, want}
	}
	good := string(target.named("new", ""))
	put := func(name, body string, want ...int) badRequest {
		return badRequest{name, request{method: http.MethodPut, path: target.collection + "/" + target.nameOf("there"), query: dryRun(), body: []byte(body)}, want}
	}
	out := []badRequest{
		send("nothing", asJSON, "", 400),
		send("no JSON", asJSON, "{", 400),
		send("half of the JSON", asJSON, good[:len(good)/2], 400),
		send("text", asJSON, "hello", 400),
		send("a number", asJSON, "5", 400),
		send("an array", asJSON, "["+good+"]", 400),
		send("null", asJSON, "null", 400, 422),
		send("bytes that are no text", asJSON, "\xff\xfe\x00", 400),
		send("JSON nested too deep", asJSON, strings.Repeat("[", 20000), 400),
		send("no YAML", "application/yaml", "a: [b", 400),
		send("CBOR", "application/cbor", "\xd9\xd9\xf7\xa0", 400, 415),
		send("plain text", "text/plain", good, 415),
		send("a content type that is none", "json", good, 415, 400),
		send("another kind", asJSON, strings.Replace(good, `"kind":"`, `"kind":"Other`, 1), 400, 422),
		send("another version", asJSON, strings.Replace(good, `v1","kind"`, `v9","kind"`, 1), 400),
		send("another group", asJSON, strings.Replace(good, `"apiVersion":"`, `"apiVersion":"other.example.com/`, 1), 400),
		send("an apiVersion with two slashes", asJSON, strings.Replace(good, `"apiVersion":"`, `"apiVersion":"a/b/c/`, 1), 400),
		send("a kind that is a number", asJSON, strings.Replace(good, `"kind":"`, `"kind":5,"x":"`, 1), 400),
		send("metadata that is text", asJSON, strings.Replace(good, `"metadata":{`, `"metadata":"x","y":{`, 1), 400, 422),
		send("no name", asJSON, strings.Replace(good, `"metadata":{"name":`, `"metadata":{"labels":{},"uid":`, 1), 422, 400),
		// Objects without a namespace lose it, and a dry run does not look at the version.
		send("another namespace", asJSON, strings.Replace(good, `"metadata":{`, `"metadata":{"namespace":"default",`, 1), 400, 422, 201),
		send("a resourceVersion", asJSON, strings.Replace(good, `"metadata":{`, `"metadata":{"resourceVersion":"7",`, 1), 201),
		put("put of another name", good, 400),
		put("put of no JSON", "{", 400),
		put("put of another kind", strings.Replace(string(target.named("there", "")), `"kind":"`, `"kind":"Other`, 1), 400, 422),
		put("put of an old version", strings.Replace(string(target.named("there", "")), `"metadata":{`, `"metadata":{"resourceVersion":"1",`, 1), 409),
		put("put of a version that is none", strings.Replace(string(target.named("there", "")), `"metadata":{`, `"metadata":{"resourceVersion":"x",`, 1), 422, 400, 500, 409),
		put("put of another uid", strings.Replace(string(target.named("there", "")), `"metadata":{`, `"metadata":{"uid":"x",`, 1), 409, 422),
	}
	if strings.Contains(target.collection, "/bad.example.com/") {
		return out
	}
	const protobuf = "application/vnd.kubernetes.protobuf"
	return append(out, send("no protobuf", protobuf, "hello", 400), send("protobuf that ends early", protobuf, "k8s\x00\x0a\xff", 400), send("JSON as protobuf", protobuf, good, 400))
}

// badFields has a field that there is not, and one that is there twice.
func badFields(target badTarget) []badRequest {
	var out []badRequest
	for name, more := range map[string]string{"unknown": `,"sesame":"open"`, "twice": `,"kind":"Twice"`, "metadata": `,"metadata":{"name":"other","sesame":"open"}`} {
		for _, level := range []string{"Strict", "Warn", "Ignore", "", "Sesame"} {
			want := []int{201, 400, 422}
			switch level {
			case "Strict":
				want = []int{400}
			case "Sesame":
				want = []int{422, 400}
			}
			out = append(out, badRequest{
				"a field, " + name + ", " + level,
				request{method: http.MethodPost, path: target.collection, query: dryRun("fieldValidation", level), body: target.named("new", more)}, want,
			})
		}
	}
	return out
}

func badPatches(target badTarget) []badRequest {
	const (
		strategicMerge = "application/strategic-merge-patch+json"
		jsonPatch      = "application/json-patch+json"
	)
	patch := func(name, contentType, body string, query url.Values, want ...int) badRequest {
		return badRequest{name, request{method: http.MethodPatch, path: target.collection + "/" + target.nameOf("there"), query: query, contentType: contentType, body: []byte(body)}, want}
	}
	managed, good := dryRun("fieldManager", "m"), string(target.named("there", ""))
	out := []badRequest{
		patch("patch as JSON", asJSON, "{}", dryRun(), 415),
		patch("patch as nothing", "x/y", "{}", dryRun(), 415),
		patch("merge patch of text", mergePatch, `"x"`, dryRun(), 400),
		patch("merge patch of a list", mergePatch, `[]`, dryRun(), 400),
		patch("merge patch of another type", mergePatch, target.wrongType, dryRun(), 400, 422),
		patch("merge patch of the name", mergePatch, `{"metadata":{"name":"x"}}`, dryRun(), 400, 422),
		patch("merge patch of the kind", mergePatch, `{"kind":"Other"}`, dryRun(), 422),
		patch("merge patch of the apiVersion", mergePatch, `{"apiVersion":"x/y/z"}`, dryRun(), 422),
		patch("merge patch of labels that are none", mergePatch, `{"metadata":{"labels":{"a":{}}}}`, dryRun(), 400, 422),
		patch("merge patch of managed fields that are none", mergePatch, `{"metadata":{"managedFields":[{"x":"y"}]}}`, dryRun(), 200, 400, 422),
		patch("strategic merge patch", strategicMerge, `{"metadata":{"labels":{"$patch":"sesame"}}}`, dryRun(), 200, 415),
		patch("strategic merge patch that is none", strategicMerge, `[]`, dryRun(), 400, 415),
		patch("JSON patch of an object", jsonPatch, `{}`, dryRun(), 400),
		patch("JSON patch of an unknown operation", jsonPatch, `[{"op":"x","path":"/a"}]`, dryRun(), 400, 422),
		patch("JSON patch of nowhere", jsonPatch, `[{"op":"remove","path":"/a/b"}]`, dryRun(), 422),
		patch("JSON patch that fails its test", jsonPatch, `[{"op":"test","path":"/kind","value":"x"}]`, dryRun(), 422),
		patch("JSON patch that removes the metadata", jsonPatch, `[{"op":"remove","path":"/metadata"}]`, dryRun(), 400, 422),
		patch("JSON patch of many operations", jsonPatch, "["+strings.Repeat(`{"op":"test","path":"/metadata/x","value":"y"},`, 10000)+`{"op":"remove","path":"/x"}]`, dryRun(), 413),
		patch("apply of no YAML", applyPatch, "a: [b", managed, 400),
		patch("apply of text", applyPatch, "hello", managed, 400),
		patch("apply of nothing", applyPatch, "", managed, 400),
		patch("apply without a manager", applyPatch, good, dryRun(), 422, 400),
		patch("apply by a manager with a bad name", applyPatch, good, dryRun("fieldManager", "\n"), 422, 400),
		patch("apply by a manager with a long name", applyPatch, good, dryRun("fieldManager", strings.Repeat("m", 129)), 422, 400),
		patch("apply of another kind", applyPatch, strings.Replace(good, `"kind":"`, `"kind":"Other`, 1), managed, 400, 500),
		patch("apply of another name", applyPatch, string(target.named("other", "")), managed, 400, 409),
		patch("apply of managed fields", applyPatch, strings.Replace(good, `"metadata":{`, `"metadata":{"managedFields":[{"manager":"x"}],`, 1), managed, 400),
		patch("apply of an unknown field", applyPatch, string(target.named("there", `,"sesame":"open"`)), managed, 400, 500, 422, 200),
		patch("apply of another type", applyPatch, strings.Replace(good, `"metadata":{`, `"metadata":{"labels":5,`, 1), managed, 400, 422, 500),
		patch("force without apply", mergePatch, "{}", dryRun("force", "true"), 422, 400),
	}
	return out
}

func badQueries(target badTarget) []badRequest {
	get := func(name, query string, want ...int) badRequest {
		values, err := url.ParseQuery(query)
		if err != nil {
			values = url.Values{"unparsable": {query}}
		}
		return badRequest{"query: " + name, request{method: http.MethodGet, path: target.collection, query: values}, want}
	}
	raw := base64.RawURLEncoding.EncodeToString
	return []badRequest{
		get("a label selector", "labelSelector=a+in", 400),
		get("a long label", "labelSelector="+strings.Repeat("a", 64), 400),
		get("a field selector", "fieldSelector=a", 400),
		get("an unknown field", "fieldSelector=sesame%3Dopen", 400),
		get("a limit", "limit=many", 400),
		get("a resourceVersion", "resourceVersion=x", 400, 500, 422),
		get("a match without a version", "resourceVersionMatch=Exact", 422, 400),
		get("an unknown match", "resourceVersion=1&resourceVersionMatch=Sesame", 422, 400),
		get("a continue token", "continue=x", 400),
		get("a continue token of another place", "continue="+raw([]byte(`{"v":"meta.k8s.io/v1","rv":1,"start":"/../../x"}`)), 400, 410),
		get("a continue token and a version", "continue=x&resourceVersion=5", 400, 422),
		get("a watch with a timeout", "watch=true&timeoutSeconds=x", 400),
		get("a watch of a version", "watch=true&resourceVersion=x", 400, 500, 422),
		get("initial events without a watch", "sendInitialEvents=true", 422, 400),
	}
}

func badDeletions(target badTarget) []badRequest {
	remove := func(name, body string, want ...int) badRequest {
		return badRequest{name, request{method: http.MethodDelete, path: target.collection + "/" + target.nameOf("there"), query: dryRun(), body: []byte(body)}, want}
	}
	return []badRequest{
		remove("delete with no JSON", "{", 400),
		remove("delete with another kind", `{"apiVersion":"v1","kind":"ConfigMap"}`, 400),
		remove("delete with an unknown policy", `{"propagationPolicy":"Sesame"}`, 422),
		remove("delete with two policies", `{"propagationPolicy":"Orphan","orphanDependents":true}`, 422),
		remove("delete of another uid", `{"preconditions":{"uid":"x"}}`, 409),
		remove("delete of another version", `{"preconditions":{"resourceVersion":"1"}}`, 409),
		remove("unsafe delete of an intact object", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`, 422, 500, 409),
		remove("unsafe delete with a policy", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true,"propagationPolicy":"Orphan"}`, 422),
	}
}
