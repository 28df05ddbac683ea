// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"regexp"
	"strings"
	"testing"
)

// volatile lists what differs from run to run, and what it is replaced by.
var volatile = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(d|h|ms|m|s))+\b`), "AGE"},
	{regexp.MustCompile(`\b127\.0\.0\.1:\d+\b`), "ADDRESS"},
	{regexp.MustCompile(`resourceVersion: "\d+"`), "VERSION"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

const anyLines = "..."

func normalize(output string) []string {
	for _, v := range volatile {
		output = v.pattern.ReplaceAllString(output, v.replacement)
	}
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(output)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// matches reports whether the lines are those of a document, where "..." stands for any lines.
func matches(want, got []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0
	case want[0] == anyLines:
		return matches(want[1:], got) || len(got) > 0 && matches(want, got[1:])
	default:
		return len(got) > 0 && want[0] == got[0] && matches(want[1:], got[1:])
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		want, got string
		match     bool
	}{
		"the same":           {"a\nb", "a\nb\n", true},
		"another word":       {"a", "b", false},
		"a line more":        {"a", "a\nb", false},
		"a line less":        {"a\nb", "a", false},
		"spaces":             {"a   b", "a b", true},
		"age":                {"id   5s", "id  1m3s", true},
		"uid":                {"a 5d1c3b0e-6b1a-4f0e-9a39-0c9b1a9f7c11", "a 0f6f7a52-90f1-4f6f-8a39-1f0f3f0f9d22", true},
		"address":            {"https://127.0.0.1:6443", "https://127.0.0.1:34567", true},
		"resource version":   {`resourceVersion: "1"`, `resourceVersion: "22"`, true},
		"another number":     {"replicas: 1", "replicas: 2", false},
		"lines left out":     {"a\n...\nd", "a\nb\nc\nd", true},
		"no line left out":   {"a\n...\nd", "a\nd", true},
		"a wrong last line":  {"a\n...\nd", "a\nb\nc", false},
		"everything is left": {"...", "a\nb", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := matches(normalize(tc.want), normalize(tc.got)); got != tc.match {
				t.Errorf("matches(%q, %q) = %v", tc.want, tc.got, got)
			}
		})
	}
}
