// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterproperties

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func object(apiVersion, kind, name string, spec map[string]any, metadata ...any) unstructured.Unstructured {
	fields := map[string]any{"name": name}
	for i := 0; i < len(metadata); i += 2 {
		fields[metadata[i].(string)] = metadata[i+1]
	}
	return unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": fields, "spec": spec}}
}

func propertyOf(name string, value any, metadata ...any) unstructured.Unstructured {
	return object("about.k8s.io/v1alpha1", "ClusterProperty", name, map[string]any{"value": value}, metadata...)
}

func claimNamed(name, value string, metadata ...any) unstructured.Unstructured {
	return object("multicluster.k8s.io/v1alpha1", "ClusterClaim", name, map[string]any{"value": value}, metadata...)
}

// values are such as a format might change.
var values = []string{
	"a", " ", "\t", "\n", "a\n", "a\r\n", "\ra", " a ", "a\n\n b\n", "a\u0085b\u2028c\u2029d", "\ufeffa", "\x00", "a\x1b[0m\x7f", "no", "null", "~", "1", "0x1F", "1e3", "2001-01-01",
	"- a", "a: b", "# a", "'", `"`, `\`, "---", "---\na: b", "...", "{}", "&a", "*a", "|", ">", "!!str a", "%a", "@a", "`a", "日本語 🎈", "e\u0301", "\U0010ffff", "<&>", "=", "a\\nb", "\u00a0", "ünï", "\u0080\u0085\u009f", "\ufffe\uffff", "a\ufeff",
	strings.Repeat("🎈", 32768), strings.Repeat("x ", 65536), strings.Repeat("line\n", 26214),
}

// TestThereAndBackIsTheSame takes values through both kinds, and through both formats between them.
func TestThereAndBackIsTheSame(t *testing.T) {
	t.Parallel()
	labels := map[string]any{"app": "x", "empty": ""}
	annotations := map[string]any{"example.com/note": "two\nlines ", "on": "yes"}
	formats := map[string]func(*bytes.Buffer, []Item) error{
		"yaml": func(b *bytes.Buffer, items []Item) error { return WriteYAML(b, items) },
		"json": func(b *bytes.Buffer, items []Item) error { return WriteJSON(b, items) },
	}
	var claims []unstructured.Unstructured
	claims = append(claims, claimNamed("id.k8s.io", "cluster-1", "labels", labels), claimNamed("clusterset.k8s.io", "fleet.example", "annotations", annotations))
	for i, value := range values {
		claims = append(claims, claimNamed(strings.Repeat("a", i+1)+".example.com", value, "labels", labels, "annotations", annotations))
	}
	for format, write := range formats {
		var file bytes.Buffer
		if err := write(&file, Properties(claims)); err != nil {
			t.Fatal(err)
		}
		read, err := Read(&file)
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		items := Claims(read)
		if len(items) != len(claims) {
			t.Fatalf("%s: there are %d claims, were %d", format, len(items), len(claims))
		}
		for i, item := range items {
			if item.Refusal != "" {
				t.Errorf("%s: %s is refused: %s", format, item.From, item.Refusal)
			} else if diff := cmp.Diff(claims[i].Object, item.Object.Object); diff != "" {
				t.Errorf("%s: %s (-want,+got):\n%.2000s", format, item.Name, diff)
			}
		}
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		property unstructured.Unstructured
		want     string
		refusal  []string
	}{
		"a value":                 {propertyOf("region.example.com", "eu"), "region.example.com=eu", nil},
		"the id":                  {propertyOf("cluster.clusterset.k8s.io", "c-1"), "id.k8s.io=c-1", nil},
		"the set":                 {propertyOf("clusterset.k8s.io", "a.b"), "clusterset.k8s.io=a.b", nil},
		"an id with dots":         {propertyOf("cluster.clusterset.k8s.io", "c.example.com"), "", []string{"is not a cluster id: must not contain dots", "give the cluster an id that is a DNS label of at most 63 characters"}},
		"an id that is long":      {propertyOf("cluster.clusterset.k8s.io", strings.Repeat("c", 64)), "", []string{"63", "give the cluster an id"}},
		"an id with a newline":    {propertyOf("cluster.clusterset.k8s.io", "c\n"), "", []string{"ends with a newline"}},
		"a set that is long":      {propertyOf("clusterset.k8s.io", strings.Repeat("a.", 127)), "", []string{"253"}},
		"the id's other name":     {propertyOf("id.k8s.io", "c-1"), "", []string{"which is called cluster.clusterset.k8s.io among ClusterProperties; give the property that name"}},
		"a byte too many":         {propertyOf("a", strings.Repeat("🎈", 32768)+"x"), "", []string{"at most 131072 bytes; this value has 131073"}},
		"as many as there can be": {propertyOf("a", strings.Repeat("🎈", 32768)), "a=" + strings.Repeat("🎈", 32768), nil},
		"an empty value":          {propertyOf("a", ""), "", []string{"spec.value: Required"}},
		"what was no UTF-8":       {propertyOf("a", "a\uFFFD"), "", []string{"U+FFFD"}},
		"a number":                {propertyOf("a", int64(1)), "", []string{"spec.value is no string; put it in quotes"}},
		"a name in capitals":      {propertyOf("Region", "eu"), "", []string{`metadata.name: "Region" is no name of a ClusterClaim`}},
		"no name":                 {propertyOf("", "eu"), "", []string{"metadata.name"}},
		"another kind":            {object("v1", "ConfigMap", "a", nil), "", []string{"it is a ConfigMap and no ClusterProperty.about.k8s.io; leave it out"}},
		"no spec":                 {unstructured.Unstructured{Object: map[string]any{"apiVersion": "about.k8s.io/v1beta1", "kind": "ClusterProperty"}}, "", []string{"it has no spec"}},
		"a later version":         {object("about.k8s.io/v1beta1", "ClusterProperty", "a", map[string]any{"value": "b"}), "a=b", nil},
		"more than a value": {
			object("about.k8s.io/v1", "ClusterProperty", "a", map[string]any{"value": "b", "scope": "x"}), "", []string{"a ClusterClaim has no place for spec.scope"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := Claims([]unstructured.Unstructured{tc.property})[0]
			got := ""
			if item.Object != nil {
				got = item.Object.GetName() + "=" + valueOf(item.Object)
			}
			if got != tc.want || (item.Refusal == "") != (len(tc.refusal) == 0) {
				t.Errorf("got %.100q (%s), want %.100q", got, item.Refusal, tc.want)
			}
			for _, want := range tc.refusal {
				if !strings.Contains(item.Refusal, want) {
					t.Errorf("the reason does not say %q: %s", want, item.Refusal)
				}
			}
		})
	}
}

func TestWhatBelongsToTheObjectIsNotTaken(t *testing.T) {
	t.Parallel()
	property := propertyOf("a", "b", "uid", "u", "resourceVersion", "7", "generation", int64(2), "creationTimestamp", "2020-01-01T00:00:00Z",
		"finalizers", []any{"example.com/x"}, "ownerReferences", []any{map[string]any{"name": "o"}}, "managedFields", []any{map[string]any{}},
		"annotations", map[string]any{lastApplied: "{}", "keep": "me"}, "labels", map[string]any{"keep": "too"})
	property.Object["status"] = map[string]any{"x": "y"}
	want := claimNamed("a", "b", "labels", map[string]any{"keep": "too"}, "annotations", map[string]any{"keep": "me"})
	if diff := cmp.Diff(want.Object, Claims([]unstructured.Unstructured{property})[0].Object.Object); diff != "" {
		t.Errorf("claim (-want,+got):\n%s", diff)
	}
	property = propertyOf("a", "b", "annotations", map[string]any{lastApplied: "{}"})
	want = claimNamed("a", "b")
	if diff := cmp.Diff(want.Object, Claims([]unstructured.Unstructured{property})[0].Object.Object); diff != "" {
		t.Errorf("claim (-want,+got):\n%s", diff)
	}
}

func TestOrderAndWhatGoesTogether(t *testing.T) {
	t.Parallel()
	summary := func(items []Item) string {
		var all []string
		for _, item := range items {
			verdict := "+"
			if item.Refusal != "" {
				verdict = "-"
			}
			all = append(all, verdict+item.Name)
		}
		return strings.Join(all, " ")
	}
	set, id, bad := propertyOf("clusterset.k8s.io", "fleet"), propertyOf("cluster.clusterset.k8s.io", "c"), propertyOf("cluster.clusterset.k8s.io", "c.d")
	for name, tc := range map[string]struct {
		items []Item
		want  string
	}{
		"id, set, the rest":      {Claims([]unstructured.Unstructured{propertyOf("z", "1"), set, propertyOf("b", "1"), id}), "+id.k8s.io +clusterset.k8s.io +b +z"},
		"a set without an id":    {Claims([]unstructured.Unstructured{set}), "+clusterset.k8s.io"},
		"a set with a bad id":    {Claims([]unstructured.Unstructured{set, bad, propertyOf("b", "1")}), "-id.k8s.io -clusterset.k8s.io +b"},
		"one name twice":         {Claims([]unstructured.Unstructured{propertyOf("b", "1"), propertyOf("b", "2")}), "+b -b"},
		"the id twice":           {Claims([]unstructured.Unstructured{id, id, set}), "+id.k8s.io -id.k8s.io -clusterset.k8s.io"},
		"out, id, set, the rest": {Properties([]unstructured.Unstructured{claimNamed("a", "1"), claimNamed("clusterset.k8s.io", "f"), claimNamed("id.k8s.io", "c")}), "+cluster.clusterset.k8s.io +clusterset.k8s.io +a"},
		"out, the other id":      {Properties([]unstructured.Unstructured{claimNamed("cluster.clusterset.k8s.io", "x"), claimNamed("id.k8s.io", "c")}), "+cluster.clusterset.k8s.io -cluster.clusterset.k8s.io"},
		"an id and another":      {Claims([]unstructured.Unstructured{propertyOf("id.k8s.io", "x"), id, set}), "+id.k8s.io +clusterset.k8s.io -id.k8s.io"},
		"a set and half an id":   {Claims([]unstructured.Unstructured{propertyOf("id.k8s.io", "x"), set}), "-clusterset.k8s.io -id.k8s.io"},
		"out, no ClusterClaim":   {Properties([]unstructured.Unstructured{id}), "-cluster.clusterset.k8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := summary(tc.items); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	one := `{"apiVersion":"about.k8s.io/v1alpha1","kind":"ClusterProperty","metadata":{"name":"a"},"spec":{"value":"b"}}`
	for name, tc := range map[string]struct {
		text, err string
		want      int
	}{
		"nothing":                    {"", "", 0},
		"empty documents":            {"---\n---\n# nothing\n---\n", "", 0},
		"JSON":                       {one, "", 1},
		"JSON, one after another":    {one + "\n" + one, "", 2},
		"a list":                     {`{"apiVersion":"v1","kind":"List","items":[` + one + "," + one + "]}", "", 2},
		"a list of its own kind":     {"apiVersion: about.k8s.io/v1alpha1\nkind: ClusterPropertyList\nitems:\n- " + one, "", 1},
		"YAML documents":             {"kind: A\napiVersion: v1\n---\nkind: B\napiVersion: v1\n", "", 2},
		"garbage":                    {"{{{", "read document 1", 0},
		"text":                       {"hello", "read document 1", 0},
		"half":                       {one[:40], "read document 1", 0},
		"a list of something else":   {`{"apiVersion":"v1","kind":"List","items":["a"]}`, "give a list of objects", 0},
		"what is no UTF-8, in YAML":  {"kind: \"\xff\"", "read document 1", 0},
		"a second document, garbage": {one + "\n---\n{", "read document", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Read(strings.NewReader(tc.text))
			if len(got) != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %v, %v; want %d objects and error %q", got, err, tc.want, tc.err)
			}
		})
	}
}

// endless yields comments of YAML, and counts what was read.
type endless struct{ bytes int64 }

func (e *endless) Read(to []byte) (int, error) {
	for i := range to {
		to[i] = "#\n"[i%2]
	}
	e.bytes += int64(len(to))
	if e.bytes > 64<<20 {
		return 0, io.EOF
	}
	return len(to), nil
}

func TestInputIsLimited(t *testing.T) {
	t.Parallel()
	input := &endless{}
	if objects, err := Read(input); err == nil || !strings.Contains(err.Error(), "split them") || input.bytes > 32<<20 {
		t.Errorf("got %d objects and %v after %d bytes, want that there are too many", len(objects), err, input.bytes)
	}
}

func TestTableAndNames(t *testing.T) {
	t.Parallel()
	items := Claims([]unstructured.Unstructured{
		propertyOf("cluster.clusterset.k8s.io", "c"), propertyOf("b", "\x1b[31mred\tx\nsecond"), propertyOf("c", strings.Repeat("é", 65)), propertyOf("Bad", "x"),
	})
	var out bytes.Buffer
	if err := WriteTable(&out, items); err != nil {
		t.Fatal(err)
	}
	want := "NAME        FROM                        VALUE\nid.k8s.io   cluster.clusterset.k8s.io   c\nb           b                           [31mred x\nc           c                           " + strings.Repeat("é", 64) + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want,+got):\n%s", diff)
	}
	out.Reset()
	if err := WriteNames(&out, items); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("clusterclaim.multicluster.k8s.io/id.k8s.io\nclusterclaim.multicluster.k8s.io/b\nclusterclaim.multicluster.k8s.io/c\n", out.String()); diff != "" {
		t.Errorf("names (-want,+got):\n%s", diff)
	}
}
