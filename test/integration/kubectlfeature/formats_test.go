// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectlfeature

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// testFormats has every command print what programs read. The exit code is that of the command without it.
func testFormats(t *testing.T, p *plugin) {
	p.namespace(t, "formats", map[string]v1alpha1.FeatureStatus{"Foo": {
		State: v1alpha1.StateOff, Dynamic: true, DanglingReferences: &v1alpha1.DanglingReferences{Count: 1},
		Conditions: []metav1.Condition{condition(v1alpha1.FeatureSafeToUpgrade, metav1.ConditionFalse, "ReferencesLeft", "stored objects use it")},
	}})
	for _, tc := range []struct {
		command string
		// kind is that of the object, empty for a verdict, in which the list of features has the names.
		kind string
		code int
	}{
		{"list", "FeatureList", 0},
		{"list --state Off --dangling", "FeatureList", 0},
		{"dangling", "FeatureList", 0},
		{"describe Foo", "Feature", 0},
		{"enable Foo", "Feature", 0},
		{"disable Foo", "Feature", 0},
		{"disable Foo --wait", "Feature", 0},
		{"unset Foo", "Feature", 0},
		{"upgrade-check", "", 1},
	} {
		for _, format := range []string{"json", "yaml", "name"} {
			if strings.HasSuffix(tc.command, "--wait") {
				// The wish has been made, and here is the server that has seen it.
				p.status(t, "formats", "Foo", func(*v1alpha1.FeatureStatus) {})
			}
			args := append(strings.Fields(tc.command), "-n", "formats", "-o", format)
			out, _, code := p.run(t, args...)
			if code != tc.code {
				t.Errorf("%v: exit code %d, want %d", args, code, tc.code)
			}
			if format == "name" {
				if out != "feature.features.k8s.io/Foo\n" {
					t.Errorf("%v: %q", args, out)
				}
				continue
			}
			var got struct {
				APIVersion, Kind string
				Metadata         struct{ Name string }
				Items            []v1alpha1.Feature
				Features         []struct{ Name string }
			}
			decode := json.Unmarshal
			if format == "yaml" {
				decode = func(content []byte, into any) error { return yaml.Unmarshal(content, into) }
			}
			if err := decode([]byte(out), &got); err != nil || format == "yaml" == strings.HasPrefix(out, "{") {
				t.Errorf("%v: %v:\n%s", args, err, out)
			}
			names := []string{got.Metadata.Name}
			if tc.kind != "Feature" {
				names = nil
			}
			for _, item := range got.Items {
				names = append(names, item.Name)
			}
			for _, finding := range got.Features {
				names = append(names, finding.Name)
			}
			if got.Kind != tc.kind || tc.kind != "" && got.APIVersion != "features.k8s.io/v1alpha1" || !slices.Equal(names, []string{"Foo"}) {
				t.Errorf("%v: kind %q of %q with %q", args, got.Kind, got.APIVersion, names)
			}
		}
	}
}
