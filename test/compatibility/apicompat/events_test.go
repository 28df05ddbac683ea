// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"net/http"
	"net/url"
	"testing"
)

// TestEventsAcrossGroups writes Events through one group and goes on with them through the other.
func TestEventsAcrossGroups(t *testing.T) {
	t.Parallel()
	const (
		legacy = "/api/v1/namespaces/verdicts/events"
		newer  = "/apis/events.k8s.io/v1/namespaces/verdicts/events"
		at     = `"eventTime":"2026-01-02T03:04:05.000006Z"`
	)
	oldEvent := `{"apiVersion":"v1","kind":"Event","metadata":{"name":"across-old"},"involvedObject":{"kind":"Thing","namespace":"verdicts"},` +
		`"reason":"Done","message":"m","count":2,"firstTimestamp":"2026-01-02T03:04:05Z","source":{"component":"c"}}`
	newEvent := `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"across-new"},"regarding":{"kind":"Thing","namespace":"verdicts"},` +
		at + `,"type":"Normal","reason":"Done","action":"a","note":"n","reportingController":"c","reportingInstance":"i"}`
	apply := url.Values{"fieldManager": {"applier"}}
	applyNewer := `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"across-applied"},"regarding":{"kind":"Thing","namespace":"verdicts"},` +
		at + `,"type":"Normal","reason":"Done","action":"a","reportingController":"c","reportingInstance":"i"}`
	applyLegacy := `{"apiVersion":"v1","kind":"Event","metadata":{"name":"across-applied"},"message":"m"}`

	var ofKube, ofAnnex []answer
	for label, r := range ordered(
		"old: create", request{method: http.MethodPost, path: legacy, body: []byte(oldEvent)},
		"old: get", request{method: http.MethodGet, path: newer + "/across-old"},
		"old: get a table", request{method: http.MethodGet, path: newer + "/across-old", accept: asTable},
		"old: patch a label", request{method: http.MethodPatch, path: newer + "/across-old", contentType: mergePatch, body: []byte(`{"metadata":{"labels":{"a":"b"}}}`)},
		"old: patch the note", request{method: http.MethodPatch, path: newer + "/across-old", contentType: mergePatch, body: []byte(`{"note":"x"}`)},
		"old: select", request{method: http.MethodGet, path: newer, accept: asTable, query: url.Values{
			"fieldSelector": {"regarding.kind=Thing,metadata.name=across-old"}, "includeObject": {"None"},
		}},
		"old: select by the other group's field", request{method: http.MethodGet, path: newer, query: url.Values{"fieldSelector": {"involvedObject.kind=Thing"}}},
		"old: post in the wrong group", request{method: http.MethodPost, path: newer, body: []byte(oldEvent)},
		"old: delete", request{method: http.MethodDelete, path: newer + "/across-old"},
		"old: get again", request{method: http.MethodGet, path: legacy + "/across-old"},
		"new: create", request{method: http.MethodPost, path: newer, body: []byte(newEvent)},
		"new: create again in the other group", request{method: http.MethodPost, path: legacy, body: []byte(`{"apiVersion":"v1","kind":"Event","metadata":{"name":"across-new"},"involvedObject":{"namespace":"verdicts"}}`)},
		"new: get", request{method: http.MethodGet, path: legacy + "/across-new"},
		"new: patch", request{method: http.MethodPatch, path: legacy + "/across-new", contentType: mergePatch, body: []byte(`{"message":"x","count":3}`)},
		"new: get what was patched", request{method: http.MethodGet, path: newer + "/across-new"},
		"new: no action", request{method: http.MethodPatch, path: legacy + "/across-new", contentType: mergePatch, body: []byte(`{"action":""}`)},
		"new: delete", request{method: http.MethodDelete, path: legacy + "/across-new"},
		"new: delete again", request{method: http.MethodDelete, path: newer + "/across-new"},
		"applied: newer", request{method: http.MethodPatch, path: newer + "/across-applied", contentType: applyPatch, query: apply, body: []byte(applyNewer)},
		"applied: legacy", request{method: http.MethodPatch, path: legacy + "/across-applied", contentType: applyPatch, query: apply, body: []byte(applyLegacy)},
		"applied: get", request{method: http.MethodGet, path: newer + "/across-applied"},
		"applied: newer again", request{method: http.MethodPatch, path: newer + "/across-applied", contentType: applyPatch, query: apply, body: []byte(applyNewer)},
		"applied: delete", request{method: http.MethodDelete, path: newer + "/across-applied"},
	) {
		for s, answers := range map[*server]*[]answer{kube: &ofKube, annex: &ofAnnex} {
			a, err := s.ask(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			a.to = label
			*answers = append(*answers, a)
		}
	}
	if complaint := differences(ofKube, ofAnnex); complaint != "" {
		t.Error(complaint)
	}
}

// ordered yields pairs of a label and a request.
func ordered(pairs ...any) func(yield func(string, request) bool) {
	return func(yield func(string, request) bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if !yield(pairs[i].(string), pairs[i+1].(request)) {
				return
			}
		}
	}
}
