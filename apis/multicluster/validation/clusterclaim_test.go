// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/multicluster"
)

func claim(name, value string) *multicluster.ClusterClaim {
	return &multicluster.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       multicluster.ClusterClaimSpec{Value: value},
	}
}

func TestValidateClusterClaim(t *testing.T) {
	t.Parallel()
	const other = "region.example.com"
	for name, tc := range map[string]struct {
		name, value string
		// want is the type of the one error and a part of its message; empty means none.
		want   field.ErrorType
		detail string
	}{
		"one byte":                           {name: other, value: "x"},
		"blanks and newlines are a value":    {name: other, value: " \n"},
		"a trailing newline is kept":         {name: other, value: "eu\n"},
		"a zero byte is valid UTF-8":         {name: other, value: "a\x00b"},
		"empty":                              {name: other, want: field.ErrorTypeRequired, detail: "1 to 131072 bytes"},
		"131072 bytes":                       {name: other, value: strings.Repeat("x", 131072)},
		"131073 bytes":                       {name: other, value: strings.Repeat("x", 131073), want: field.ErrorTypeTooLong, detail: "this value has 131073"},
		"131072 bytes of two-byte runes":     {name: other, value: strings.Repeat("é", 65536)},
		"65537 two-byte runes":               {name: other, value: strings.Repeat("é", 65537), want: field.ErrorTypeTooLong, detail: "this value has 131074"},
		"131072 bytes of four-byte runes":    {name: other, value: strings.Repeat("🎈", 32768)},
		"32769 four-byte runes":              {name: other, value: strings.Repeat("🎈", 32769), want: field.ErrorTypeTooLong, detail: "this value has 131076"},
		"three-byte runes just below":        {name: other, value: strings.Repeat("€", 43690) + "xx"},
		"three-byte runes just above":        {name: other, value: strings.Repeat("€", 43691), want: field.ErrorTypeTooLong, detail: "this value has 131073"},
		"invalid UTF-8":                      {name: other, value: "ab\xff", want: field.ErrorTypeInvalid, detail: "the byte at offset 2 is not"},
		"half a rune":                        {name: other, value: "é"[:1], want: field.ErrorTypeInvalid, detail: "must be valid UTF-8"},
		"a surrogate":                        {name: other, value: "\xed\xa0\x80", want: field.ErrorTypeInvalid, detail: "must be valid UTF-8"},
		"the replacement character":          {name: other, value: "é\uFFFD", want: field.ErrorTypeInvalid, detail: "U+FFFD, which is at byte offset 2"},
		"a long invalid value is not echoed": {name: other, value: strings.Repeat("x", 1000) + "\xff", want: field.ErrorTypeInvalid, detail: `"` + strings.Repeat("x", 64) + `…"`},

		"id":                           {name: "id.k8s.io", value: "cluster-1"},
		"id of 63 characters":          {name: "id.k8s.io", value: strings.Repeat("x", 63)},
		"id of 64 characters":          {name: "id.k8s.io", value: strings.Repeat("x", 64), want: field.ErrorTypeInvalid, detail: "63"},
		"id with a dot":                {name: "id.k8s.io", value: "cluster.1", want: field.ErrorTypeInvalid, detail: "is not a cluster id: must not contain dots"},
		"id in upper case":             {name: "id.k8s.io", value: "Cluster", want: field.ErrorTypeInvalid, detail: "lowercase RFC 1123 label"},
		"id that ends with a hyphen":   {name: "id.k8s.io", value: "cluster-", want: field.ErrorTypeInvalid, detail: "lowercase RFC 1123 label"},
		"id that ends with a newline":  {name: "id.k8s.io", value: "cluster-1\n", want: field.ErrorTypeInvalid, detail: "ends with a newline, which a cluster id cannot contain; send it without"},
		"id that ends as on Windows":   {name: "id.k8s.io", value: "cluster-1\r\n", want: field.ErrorTypeInvalid, detail: "ends with a newline"},
		"id that is a newline":         {name: "id.k8s.io", value: "\n", want: field.ErrorTypeInvalid, detail: "lowercase RFC 1123 label"},
		"id with a blank":              {name: "id.k8s.io", value: "cluster-1 ", want: field.ErrorTypeInvalid, detail: "lowercase RFC 1123 label"},
		"empty id":                     {name: "id.k8s.io", want: field.ErrorTypeRequired, detail: "1 to 131072 bytes"},
		"a name that ends like the id": {name: "my.id.k8s.io", value: "Cluster.1"},

		"set":                          {name: "clusterset.k8s.io", value: "fleet"},
		"set with dots":                {name: "clusterset.k8s.io", value: "fleet.example.com"},
		"set of 253 bytes":             {name: "clusterset.k8s.io", value: strings.Repeat("a.", 126) + "a"},
		"set of 254 bytes":             {name: "clusterset.k8s.io", value: strings.Repeat("a.", 126) + "aa", want: field.ErrorTypeInvalid, detail: "253"},
		"set with an underscore":       {name: "clusterset.k8s.io", value: "my_fleet", want: field.ErrorTypeInvalid, detail: "lowercase RFC 1123 subdomain"},
		"set that ends with a dot":     {name: "clusterset.k8s.io", value: "fleet.", want: field.ErrorTypeInvalid, detail: "lowercase RFC 1123 subdomain"},
		"set that ends with a newline": {name: "clusterset.k8s.io", value: "fleet\n", want: field.ErrorTypeInvalid, detail: "ends with a newline, which the name of a cluster set cannot contain"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := claim(tc.name, tc.value)
			for verb, errs := range map[string]field.ErrorList{
				"create": ValidateClusterClaim(object),
				"update": ValidateClusterClaimUpdate(object, object),
			} {
				wantError(t, verb, errs, tc.want, "spec.value", tc.detail)
			}
			if object.Spec.Value != tc.value {
				t.Errorf("the value became %q", object.Spec.Value)
			}
		})
	}
}

func TestClusterSetIsImmutable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claim, from, to string
		want            field.ErrorType
	}{
		"the set":       {claim: "clusterset.k8s.io", from: "a", to: "b", want: field.ErrorTypeInvalid},
		"the same set":  {claim: "clusterset.k8s.io", from: "a", to: "a"},
		"the id":        {claim: "id.k8s.io", from: "a", to: "b"},
		"another claim": {claim: "example.com", from: "a", to: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := ValidateClusterClaimUpdate(claim(tc.claim, tc.to), claim(tc.claim, tc.from))
			wantError(t, "update", errs, tc.want, "spec.value", "delete the ClusterClaim clusterset.k8s.io")
		})
	}
}

func TestClusterClaimNameIsASubdomain(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"id.k8s.io":                      true,
		"a":                              true,
		strings.Repeat("a.", 126) + "a":  true,
		strings.Repeat("a.", 126) + "aa": false,
		"Region":                         false,
		"a_b":                            false,
		"a..b":                           false,
		"":                               false,
		"example.com\n":                  false,
		"cluster.clusterset.k8s.io.":     false,
		"🎈":                              false,
		"ends-with-digit-1":              true,
		"0starts-with-digit":             true,
		"-starts-with-hyphen":            false,
		strings.Repeat("x", 64):          true,
	} {
		if got := len(ValidateClusterClaimName(name, false)) == 0; got != want {
			t.Errorf("%q: got valid %v, want %v", name, got, want)
		}
	}
}

func TestValidateClusterClaimStatus(t *testing.T) {
	t.Parallel()
	condition := metav1.Condition{Type: "Provisioned", Status: metav1.ConditionTrue, Reason: "Known", LastTransitionTime: metav1.Now()}
	for name, tc := range map[string]struct {
		status multicluster.ClusterClaimStatus
		want   field.ErrorType
		path   string
	}{
		"empty":         {},
		"one condition": {status: multicluster.ClusterClaimStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{condition}}},
		"a type twice": {
			status: multicluster.ClusterClaimStatus{Conditions: []metav1.Condition{condition, condition}},
			want:   field.ErrorTypeDuplicate, path: "status.conditions[1]",
		},
		"no reason": {
			status: multicluster.ClusterClaimStatus{Conditions: []metav1.Condition{{Type: "A", Status: "True", LastTransitionTime: metav1.Now()}}},
			want:   field.ErrorTypeRequired, path: "status.conditions[0].reason",
		},
		"a negative generation": {
			status: multicluster.ClusterClaimStatus{ObservedGeneration: -1},
			want:   field.ErrorTypeInvalid, path: "status.observedGeneration",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := claim("a", "b")
			object.Status = tc.status
			wantError(t, "status", ValidateClusterClaimStatusUpdate(object, claim("a", "b")), tc.want, tc.path, "")
		})
	}
}

// wantError checks that there is exactly one error of a type, at a path, and saying something; or none if the type is empty.
func wantError(t *testing.T, verb string, errs field.ErrorList, want field.ErrorType, path, detail string) {
	t.Helper()
	if want == "" {
		if len(errs) > 0 {
			t.Errorf("%s: unexpected: %v", verb, errs.ToAggregate())
		}
		return
	}
	if len(errs) != 1 {
		t.Errorf("%s: want one error of type %q, got %v", verb, want, errs.ToAggregate())
		return
	}
	got := errs[0]
	if diff := cmp.Diff([]string{string(want), path}, []string{string(got.Type), got.Field}); diff != "" {
		t.Errorf("%s: %v: type and path differ (-want,+got):\n%s", verb, got, diff)
	}
	if !strings.Contains(got.Error(), detail) {
		t.Errorf("%s: %q does not say %q", verb, got.Error(), detail)
	}
}
