// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-annex/annex/test/framework/poll"
)

// TestFlowControlObjects is about what every server has from the start, and the order in which kubectl lists it.
func TestFlowControlObjects(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"flowschemas", "prioritylevelconfigurations"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			path := "/apis/flowcontrol.apiserver.k8s.io/v1/" + resource
			err := poll.Until(t.Context(), 30*time.Second, func(ctx context.Context) error {
				diff := cmp.Diff(flowControlOf(ctx, t, kube, path), flowControlOf(ctx, t, annex, path))
				return poll.Want(diff == "", diff)
			})
			if err != nil {
				t.Errorf("%s (-kube-apiserver,+annex): %v", resource, err)
			}
		})
	}
}

// flowControlOf returns the specs and annotations of the objects, and the cells of their table, without those of test cases and those
// that Annex has for its own parts.
func flowControlOf(ctx context.Context, t *testing.T, s *server, path string) (all [][]any) {
	t.Helper()
	further := func(name string) bool { return strings.HasPrefix(name, "verdicts") || strings.HasPrefix(name, "annex") }
	for _, item := range objects(mustAsk(ctx, t, s, request{method: http.MethodGet, path: path}).object["items"]) {
		o := object(item)
		if !further(o.metadata("name")) {
			all = append(all, []any{o.metadata("name"), item["spec"], member(item, "metadata", "annotations")})
		}
	}
	for _, row := range objects(mustAsk(ctx, t, s, request{method: http.MethodGet, path: path, accept: asTable}).object["rows"]) {
		cells, _ := row["cells"].([]any)
		if name, _ := cells[0].(string); further(name) {
			continue
		}
		for i := range cells {
			cells[i] = ageless(cells[i])
		}
		all = append(all, cells)
	}
	return all
}

// withoutFlowControl takes away what both servers write into a FlowSchema, if not at the same time: whether it has a level.
func withoutFlowControl(answer map[string]any) {
	const (
		writer    = "api-priority-and-fairness-config-consumer-v1"
		condition = "Dangling"
		column    = "MissingPL"
	)
	without := func(of map[string]any, list, key, value string) {
		items, _ := of[list].([]any)
		left := slices.DeleteFunc(slices.Clone(items), func(item any) bool { return member(map[string]any{"": item}, "")[key] == value })
		if len(left) < len(items) {
			of[list] = left
		}
		if len(items) > 0 && len(left) == 0 {
			delete(of, list)
		}
	}
	without(member(answer, "metadata"), "managedFields", "manager", writer)
	if answer["kind"] == "FlowSchema" {
		without(member(answer, "status"), "conditions", "type", condition)
	}
	for i, definition := range objects(answer["columnDefinitions"]) {
		for _, row := range objects(answer["rows"]) {
			without(member(row, "object", "metadata"), "managedFields", "manager", writer)
			if cells, ok := row["cells"].([]any); ok && definition["name"] == column {
				cells[i] = "<either>"
			}
		}
	}
}
