// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// TestNothingThatIsPrintedSteersATerminal reads Features, warnings and errors of a server that is full of control characters.
func TestNothingThatIsPrintedSteersATerminal(t *testing.T) {
	t.Parallel()
	const evil = "x\x1b[2Jy\u009b31mz\x7f\a\b\r\u0085"
	now := metav1.Now()
	feature := v1alpha1.Feature{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Feature"},
		ObjectMeta: metav1.ObjectMeta{Name: "Foo", Namespace: "default", CreationTimestamp: now, Annotations: map[string]string{"a": evil}},
		Status: v1alpha1.FeatureStatus{
			State: v1alpha1.StateOff, Stability: v1alpha1.Stability(evil), Default: v1alpha1.Value(evil), Source: v1alpha1.Source(evil), Version: evil,
			Tasks:              []v1alpha1.Task{{Name: evil, State: v1alpha1.TaskState(evil), Message: evil}},
			Uses:               []v1alpha1.Use{{Component: evil, Version: evil, Value: v1alpha1.Value(evil), Reporter: evil, ReportTime: &now}},
			DanglingReferences: &v1alpha1.DanglingReferences{Count: 1, Examples: []v1alpha1.ObjectReference{{Group: evil, Resource: evil, Namespace: evil, Name: evil}}},
			Conditions: []metav1.Condition{
				{Type: v1alpha1.FeatureSafeToUpgrade, Status: metav1.ConditionFalse, Reason: evil, Message: evil},
				{Type: evil, Status: metav1.ConditionStatus(evil), Reason: evil, Message: evil},
			},
		},
	}
	list := v1alpha1.FeatureList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "FeatureList"}, Items: []v1alpha1.Feature{feature}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: "Forbidden", Code: 403, Message: evil}
		code := http.StatusForbidden
		switch {
		case strings.HasSuffix(r.URL.Path, "/features"):
			answer, code = list, http.StatusOK
		case strings.HasSuffix(r.URL.Path, "/features/Foo") && r.Method == http.MethodGet:
			answer, code = feature, http.StatusOK
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "`+strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, evil)+`"`)
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	for _, args := range [][]string{
		{"list"}, {"list", "-o", "wide"}, {"list", "-o", "json"}, {"list", "-o", "yaml"}, {"list", "-o", "name"}, {"describe", "Foo"}, {"describe", "Bar"},
		{"list", "-o", "jsonpath={.items[*].status.version}"}, {"dangling"}, {"upgrade-check"}, {"enable", "Foo"}, {"unset", "Foo"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			all := append([]string{"--server=" + server.URL, "--kubeconfig=/dev/null", "--cache-dir=" + t.TempDir()}, args...)
			run(t.Context(), all, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
			printed := stdout.String() + stderr.String()
			// What YAML cannot have is an error of the library.
			if !strings.Contains(printed, "31m") && !strings.Contains(printed, "Foo") && !strings.Contains(printed, "control characters are not allowed") {
				t.Errorf("the command shows nothing of what the server said: %q", printed)
			}
			if at := strings.IndexFunc(printed, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); at >= 0 {
				t.Errorf("a terminal would obey %q in %q", printed[at:min(at+5, len(printed))], printed)
			}
		})
	}
}
