// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPageIsParsed(t *testing.T) {
	t.Parallel()
	const build = `kubernetes_build_info{build_date="x",git_version="v1.37.1",major="1"} 1` + "\n"
	one := map[string]gate{"One": {"Enabled", "GA"}}
	for name, tc := range map[string]struct {
		text     string
		want     *page
		problems []string
		err      string
	}{
		"every stage": {
			text: "# HELP kubernetes_build_info [BETA] A metric.\n# TYPE kubernetes_build_info gauge\n" + build +
				"# HELP kubernetes_feature_enabled [BETA] This metric.\n# TYPE kubernetes_feature_enabled gauge\n" +
				`kubernetes_feature_enabled{name="A",stage="ALPHA"} 0` + "\n" +
				`kubernetes_feature_enabled{name="B.c_d-e",stage="BETA"} 1` + "\n" +
				`kubernetes_feature_enabled{name="C",stage=""} 1` + "\n" +
				`kubernetes_feature_enabled{name="D",stage="DEPRECATED"} 0` + "\n" +
				`kubernetes_feature_enabled{name="E",stage="PRE-ALPHA"} 0` + "\n",
			want: &page{version: "v1.37.1", gates: map[string]gate{
				"A": {"Disabled", "Alpha"}, "B.c_d-e": {"Enabled", "Beta"}, "C": {"Enabled", "GA"}, "D": {"Disabled", "Deprecated"}, "E": {"Disabled", "PreAlpha"},
			}},
		},
		"AllAlpha and AllBeta": {
			text: build + `kubernetes_feature_enabled{name="AllAlpha",stage="ALPHA"} 0` + "\n" + `kubernetes_feature_enabled{name="AllBeta",stage="BETA"} 0` + "\n" +
				`kubernetes_feature_enabled{name="One",stage=""} 1` + "\n",
			want: &page{version: "v1.37.1", gates: one},
		},
		"other metrics": {
			text: "# TYPE a histogram\na_bucket{le=\"1\"} 1\nnonsense that no parser takes\nlong " + strings.Repeat("x", 3*maxLine) + "\n" +
				`kubernetes_feature_enabled_total{name="Two"} 1` + "\n" + build + `kubernetes_feature_enabled{stage="",name="One"} 1` + "\nb 1",
			want: &page{version: "v1.37.1", gates: one},
		},
		"no version": {text: `kubernetes_feature_enabled{name="One",stage=""} 1` + "\n", want: &page{gates: one}},
		"long version": {
			text: fmt.Sprintf("kubernetes_build_info{git_version=%q} 1\nkubernetes_feature_enabled{name=\"One\",stage=\"\"} 1\n", strings.Repeat("é", 100)),
			want: &page{version: strings.Repeat("é", 64), gates: one},
		},
		"gates that no Feature can be": {
			text: `kubernetes_feature_enabled{name="a/b",stage=""} 1` + "\n" + `kubernetes_feature_enabled{name="",stage=""} 1` + "\n" +
				`kubernetes_feature_enabled{name="One",stage=""} 1` + "\n" + `kubernetes_feature_enabled{name="One",stage="BETA"} 0` + "\n" +
				`kubernetes_feature_enabled{name="Half",stage=""} 0.5` + "\n" + `kubernetes_feature_enabled{name="Nothing",stage=""} NaN` + "\n" +
				`kubernetes_feature_enabled{name="New",stage="GAMMA"} 1` + "\n",
			want: &page{gates: map[string]gate{"One": {"Enabled", "GA"}, "New": {"Enabled", ""}}},
			problems: []string{
				`"" cannot be the name of a Feature`, `"a/b" cannot be the name of a Feature`, "Half has the value 0.5",
				`New has the unknown stage "GAMMA"`, "Nothing has the value NaN", `One is listed again with stage "BETA"`,
			},
		},
		"nothing about features": {text: build, err: errNoFeatures.Error()},
		"another page":           {text: "ok", err: errNoFeatures.Error()},
		"empty":                  {err: errNoFeatures.Error()},
		"cut off":                {text: build + `kubernetes_feature_enabled{name="One",stage=""} 1`, err: "read metrics: unexpected EOF"},
		"malformed":              {text: "kubernetes_feature_enabled{name=One} 1\n", err: "parse metrics: "},
		"endless line":           {text: `kubernetes_feature_enabled{name="` + strings.Repeat("x", 2*maxLine), err: "more about features than can be"},
		"endless page":           {text: strings.Repeat("# HELP kubernetes_feature_enabled "+strings.Repeat("x", 1000)+"\n", 5000), err: "more about features than can be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems, err := parsePage(strings.NewReader(tc.text))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || got != nil {
					t.Fatalf("got %v and error %v, want an error with %q", got, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(page{}, gate{})); diff != "" {
				t.Errorf("page (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.problems, problems); diff != "" {
				t.Errorf("problems (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestBrokenPageIsNotBelieved: gates that come after the break would seem to be gone.
func TestBrokenPageIsNotBelieved(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	read, _, err := parsePage(&breaks{strings.NewReader(`kubernetes_feature_enabled{name="One",stage=""} 1` + "\n"), broken})
	if read != nil || !errors.Is(err, broken) {
		t.Errorf("got %v and %v, want the error", read, err)
	}
}

type breaks struct {
	text *strings.Reader
	err  error
}

func (b *breaks) Read(p []byte) (int, error) {
	if b.text.Len() == 0 {
		return 0, b.err
	}
	return b.text.Read(p)
}
