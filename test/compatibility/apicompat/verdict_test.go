// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// verdict is what two servers have to agree on.
type verdict struct {
	To       string
	Code     int
	Reason   string
	About    string
	Causes   []string
	Warnings []string
	// Object is what a request that went well returned, and Text an answer that is no object.
	Object map[string]any
	Text   string
}

// differences tells what the answers of kube-apiserver and of ours do not agree on, in the first pair that does not agree.
func differences(ofKube, ofAnnex []answer) string {
	for i := range max(len(ofKube), len(ofAnnex)) {
		if i >= len(ofKube) || i >= len(ofAnnex) {
			return fmt.Sprintf("kube-apiserver gave %d answers and annex %d", len(ofKube), len(ofAnnex))
		}
		want, got := verdictOf(ofKube[i]), verdictOf(ofAnnex[i])
		if member(ofKube[i].object, "details")["kind"] == nil {
			// Some of kube-apiserver's errors do not say what they are about, and nobody depends on that.
			got.About = want.About
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Sprintf("%s (-kube-apiserver,+annex):\n%s\nkube-apiserver: %s\nannex:          %s",
				ofKube[i].to, shorten(diff), describe(ofKube[i]), describe(ofAnnex[i]))
		}
	}
	return ""
}

func describe(a answer) string {
	return fmt.Sprintf("%d %q %s", a.code, a.warnings, shorten(strings.TrimSpace(a.text)))
}

func shorten(text string) string {
	const enough = 2500
	if len(text) > enough {
		text = text[:enough] + "…"
	}
	return text
}

func verdictOf(a answer) verdict {
	v := verdict{To: a.to, Code: a.code, Warnings: slices.Sorted(slices.Values(a.warnings))}
	if a.prefix != "" {
		a.object, _ = ungenerate(runtime.DeepCopyJSONValue(a.object), a.prefix).(map[string]any)
	}
	switch {
	case a.object == nil:
		v.Text = a.text
	case a.code < http.StatusBadRequest:
		v.Object = normalize(a.object)
	default:
		v.Reason, _ = a.object["reason"].(string)
		details := member(a.object, "details")
		v.About = fmt.Sprint(details["group"], " ", details["kind"], " ", details["name"])
		causes, _ := details["causes"].([]any)
		for _, cause := range causes {
			cause, _ := cause.(map[string]any)
			v.Causes = append(v.Causes, fmt.Sprint(cause["reason"], " ", cause["field"]))
		}
		slices.Sort(v.Causes)
		// How often a server judges the same field is its own affair.
		v.Causes = slices.Compact(v.Causes)
	}
	return v
}

// normalize returns the object without what no two servers have in common: identifiers, versions, generated names and the time.
func normalize(in map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(in)
	identify(out, "metadata")
	identify(out, "details")
	withoutFlowControl(out)
	for _, column := range objects(out["columnDefinitions"]) {
		// No client shows them, and descriptions may be in words of our own.
		delete(column, "description")
		delete(column, "format")
	}
	for _, row := range objects(out["rows"]) {
		object, _ := row["object"].(map[string]any)
		identify(object, "metadata")
		if cells, ok := row["cells"].([]any); ok {
			for i := range cells {
				cells[i] = ageless(cells[i])
			}
		}
	}
	withoutNow(out)
	orderManagers(out)
	for _, row := range objects(out["rows"]) {
		object, _ := row["object"].(map[string]any)
		orderManagers(object)
	}
	return out
}

// orderManagers puts the managers of an object's fields into an order that does not depend on the second in which they wrote.
func orderManagers(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	managers, _ := metadata["managedFields"].([]any)
	slices.SortStableFunc(managers, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

func identify(object map[string]any, part string) {
	metadata, _ := object[part].(map[string]any)
	for _, key := range []string{"uid", "resourceVersion"} {
		if metadata[key] != nil && metadata[key] != "" {
			metadata[key] = "<" + key + ">"
		}
	}
}

// Names are generated from so much of a prefix, and get so many random letters.
const generatedPrefix, generatedSuffix = 58, 5

// ungenerate replaces the names that were generated from a prefix.
func ungenerate(value any, prefix string) any {
	prefix = prefix[:min(len(prefix), generatedPrefix)]
	switch value := value.(type) {
	case string:
		if strings.HasPrefix(value, prefix) && len(value) == len(prefix)+generatedSuffix {
			return prefix + "<generated>"
		}
	case []any:
		for i := range value {
			value[i] = ungenerate(value[i], prefix)
		}
	case map[string]any:
		for key := range value {
			value[key] = ungenerate(value[key], prefix)
		}
	}
	return value
}

var age = regexp.MustCompile(`^(\d+[ydhms])+$`)

func ageless(cell any) any {
	if text, ok := cell.(string); ok && age.MatchString(text) {
		return "<age>"
	}
	return cell
}

// withoutNow replaces times of these minutes in place. Those that a case gives are further away.
func withoutNow(value any) any {
	const these = 10 * time.Minute
	switch value := value.(type) {
	case string:
		if at, err := time.Parse(time.RFC3339, value); err == nil && time.Since(at).Abs() < these {
			return "<now>"
		}
	case []any:
		for i := range value {
			value[i] = withoutNow(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = withoutNow(value[key])
		}
	}
	return value
}
