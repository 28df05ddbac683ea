// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
)

// bomb is a request that would cost a lot where nothing stops it.
type bomb struct {
	method, contentType, headers, body string
	// wants are the codes of answers that are fine; without any, each from 400 to 499.
	wants []int
}

const (
	jsonType, yamlType             = "application/json", "application/yaml"
	patchType, mergeType           = "application/json-patch+json", "application/merge-patch+json"
	applyType, protobufType        = "application/apply-patch+yaml", "application/vnd.kubernetes.protobuf"
	cborType, applyCBORType        = "application/cbor", "application/apply-patch+cbor"
	strategicType                  = "application/strategic-merge-patch+json"
	tooLarge, unsupported, invalid = http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity
)

// bombs are for a kind whose objects begin so in JSON, without the last brace, and may be so deep. Zeros are gzipped ones.
func bombs(open, zeros string, levels int) map[string]bomb {
	aliases := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'l'; c++ {
		aliases += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	merged := "a: &a {" + strings.TrimSuffix(manyKeys("k%d: x, ", 1000), ", ") + "}\n"
	for c := 'b'; c < 'l'; c++ {
		merged += fmt.Sprintf("%c: &%c {x: {<<: *%c}, y: {<<: *%c}, z: *%c}\n", c, c, c-1, c-1, c-1)
	}
	copies := `{"op":"add","path":"/metadata/annotations","value":{"a0":"` + strings.Repeat("a", 1000) + `"}}`
	for i := range 40 {
		copies += fmt.Sprintf(`,{"op":"copy","from":"/metadata/annotations","path":"/metadata/annotations/c%d"}`, i)
	}
	deep := func(begin, end string, levels int) string {
		return strings.Repeat(begin, levels) + "1" + strings.Repeat(end, levels)
	}
	nested := func(levels int) string { return open + `,"deep":` + deep(`{"a":`, "}", levels) + "}" }
	owned := func(levels int) string {
		entry := `[{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":` +
			strings.Repeat(`{"f:a":`, levels) + "{}" + strings.Repeat("}", levels) + "}]"
		return strings.Replace(open, `"metadata":{`, `"metadata":{"managedFields":`+entry+",", 1) + "}"
	}
	// A field of bytes that says it is 2 GiB long, and one message within another 100,000 times.
	long := append([]byte("k8s\x00\x12"), binary.AppendUvarint(nil, 1<<31-1)...)
	within := "k8s\x00" + strings.Repeat("\x12\xff\xff\xff\xff\x07\x0a", 100_000)
	return map[string]bomb{
		"3 MiB and a byte":                       {"POST", jsonType, "", open + `,"x":"` + strings.Repeat("a", 3<<20) + `"}`, []int{tooLarge}},
		"6 MiB":                                  {"POST", jsonType, "", strings.Repeat(" ", 6<<20), []int{tooLarge}},
		"3 MiB of brackets":                      {"POST", jsonType, "", strings.Repeat("[", 3<<20), nil},
		"3 MiB of an object in an object":        {"POST", jsonType, "", nested(200_000), nil},
		"an object in an object":                 {"POST", jsonType, "", nested(levels), []int{200, 201, 400, 422}},
		"20,000 keys":                            {"POST", jsonType, "", open + `,` + strings.TrimSuffix(manyKeys(`"k%d":{},`, 20_000), ",") + "}", []int{200, 201, 400, 422}},
		"a key 100,000 times":                    {"POST", jsonType, "", open + strings.Repeat(`,"x":{}`, 100_000) + "}", []int{200, 201, 400, 422}},
		"a number of a million digits":           {"POST", jsonType, "", open + `,"x":` + strings.Repeat("9", 1_000_000) + "}", []int{200, 201, 400, 422}},
		"an exponent that is large":              {"POST", jsonType, "", open + `,"x":1e999999999}`, []int{200, 201, 400, 422}},
		"9,000 levels of managed fields":         {"POST", jsonType, "", owned(9_000), []int{200, 201, 400, 422}},
		"YAML aliases":                           {"POST", yamlType, "", aliases, nil},
		"YAML merges":                            {"POST", yamlType, "", merged, nil},
		"1 MiB of YAML brackets":                 {"POST", yamlType, "", strings.Repeat("[", 1<<20), nil},
		"1 MiB of YAML in YAML":                  {"POST", yamlType, "", strings.Repeat("- ", 1<<19), nil},
		"50,000 YAML documents":                  {"POST", yamlType, "", strings.Repeat("---\na: b\n", 50_000), nil},
		"YAML anchors without end":               {"POST", yamlType, "", "a: &a\n  b: *a\n", nil},
		"copies of copies":                       {"PATCH", patchType, "", "[" + copies + "]", []int{tooLarge, invalid}},
		"10,001 operations":                      {"PATCH", patchType, "", "[" + strings.Repeat(`{"op":"test","path":"/kind","value":""},`, 10_000) + `{"op":"test","path":"/kind","value":""}]`, []int{tooLarge}},
		"a path of a million parts":              {"PATCH", patchType, "", `[{"op":"add","path":"` + strings.Repeat("/a", 1_000_000) + `","value":1}]`, []int{tooLarge}},
		"an index that is large":                 {"PATCH", patchType, "", `[{"op":"add","path":"/metadata/finalizers","value":[]},{"op":"add","path":"/metadata/finalizers/2000000000","value":"a/b"}]`, nil},
		"a merge patch of 200,000 levels":        {"PATCH", mergeType, "", deep(`{"a":`, "}", 200_000), nil},
		"a merge patch of 9,990 levels":          {"PATCH", mergeType, "", deep(`{"a":`, "}", 9_990), []int{tooLarge}},
		"a deep merge patch with 2 MiB":          {"PATCH", mergeType, "", strings.Repeat(`{"a":`, 120) + `"` + strings.Repeat("a", 2<<20) + `"` + strings.Repeat("}", 120), []int{tooLarge}},
		"a strategic patch of 9,990 levels":      {"PATCH", strategicType, "", deep(`{"a":`, "}", 9_990), []int{200, 400, 415, 422}},
		"a strategic patch of directives":        {"PATCH", strategicType, "", `{"metadata":{"finalizers":[` + strings.TrimSuffix(strings.Repeat(`{"$patch":"replace"},`, 50_000), ",") + `]}}`, []int{200, 400, 415, 422}},
		"an applied YAML alias bomb":             {"PATCH", applyType, "", aliases, nil},
		"an object in an object, applied":        {"PATCH", applyType, "", nested(levels), []int{200, 201, 400, 422, 500}},
		"200,000 levels applied":                 {"PATCH", applyType, "", nested(200_000), nil},
		"gzip, 256 MiB of zeros":                 {"POST", jsonType, "Content-Encoding: gzip\n", zeros, nil},
		"gzip in gzip":                           {"POST", jsonType, "Content-Encoding: gzip, gzip, deflate, br\n", zeros, nil},
		"protobuf of 2 GiB, it says":             {"POST", protobufType, "", string(long), []int{400, 415}},
		"protobuf in protobuf":                   {"POST", protobufType, "", within, []int{400, 415}},
		"CBOR, an array of 2^63":                 {"POST", cborType, "", "\xd9\xd9\xf7\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", []int{unsupported}},
		"CBOR, bytes of 2^63":                    {"POST", cborType, "", "\xd9\xd9\xf7\x5b\x7f\xff\xff\xff\xff\xff\xff\xff", []int{unsupported}},
		"CBOR, a million levels":                 {"POST", cborType, "", "\xd9\xd9\xf7" + strings.Repeat("\x81", 1_000_000), []int{unsupported}},
		"CBOR, applied":                          {"PATCH", applyCBORType, "", "\xd9\xd9\xf7\xbb\x7f\xff\xff\xff\xff\xff\xff\xff", []int{unsupported}},
		"delete options of 200,000 levels":       {"DELETE", jsonType, "", deep(`{"a":`, "}", 200_000), nil},
		"delete options that are a YAML bomb":    {"DELETE", yamlType, "", aliases, []int{200, 400, 415}},
		"a header of 1 MiB and more":             {"POST", jsonType, "X-Long: " + strings.Repeat("a", 1<<20+8<<10) + "\n", open + "}", []int{http.StatusRequestHeaderFieldsTooLarge}},
		"20,000 headers":                         {"POST", jsonType, manyKeys("X-%d: a\n", 20_000), "{}", nil},
		"an Accept of 200,000 kinds":             {"POST", jsonType, "Accept: " + strings.Repeat("a/b,", 200_000) + "\n", "{}", nil},
		"a charset that is long, a type unheard": {"POST", "a/b; charset=" + strings.Repeat("a", 100_000), "", "{}", []int{unsupported, 400}},
	}
}

// packedZeros are 256 MiB.
func packedZeros(t *testing.T) string {
	t.Helper()
	zeros := &bytes.Buffer{}
	packed, err := gzip.NewWriterLevel(zeros, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	mebibyte := make([]byte, 1<<20)
	for range 256 {
		_, _ = packed.Write(mebibyte)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return zeros.String()
}

func manyKeys(format string, number int) string {
	all := &strings.Builder{}
	for i := range number {
		_, _ = fmt.Fprintf(all, format, i)
	}
	return all.String()
}

// TestBombs sends what grows when it is read, or is deep, or long, to each kind of server and each way to the extension's.
func TestBombs(t *testing.T) {
	config, kube, claims := plain.admin(t)
	createOpenDefinition(t, apiextensions.NewForConfigOrDie(config))
	if _, err := kube.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "target"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "target"}, Spec: v1alpha1.ClusterClaimSpec{Value: "v"}}
	if _, err := claims.MulticlusterV1alpha1().ClusterClaims().Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	plain.wantLittleMemory(t, 200)
	zeros := packedZeros(t)
	const claimJSON = `{"apiVersion":"multicluster.k8s.io/v1alpha1","kind":"ClusterClaim","metadata":{"name":"bomb"},"spec":{"value":"v"}`
	// Who owns the fields of a custom resource without a schema costs the square of its levels, up to the 10,000 that are read: a gigabyte for
	// a moment. That is the library's, and needs such a definition.
	for name, target := range map[string]struct {
		address, path, open string
		levels              int
	}{
		"native":            {plain.host, "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bomb"}`, 9_990},
		"custom":            {plain.host, "/apis/bombs.example.com/v1/opens", `{"apiVersion":"bombs.example.com/v1","kind":"Open","metadata":{"name":"bomb"}`, 1_000},
		"extension, behind": {plain.host, claimsPath, claimJSON, 9_990},
		"extension, direct": {plain.extension, claimsPath, claimJSON, 9_990},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, target.address, plain.tls(t, plain.user(t, "bomber", "system:masters")))
			for what, b := range bombs(target.open, zeros, target.levels) {
				began := time.Now()
				got, err := s.send(t.Context(), fmt.Sprintf("%s %s HTTP/1.1\nHost: a\nContent-Type: %s\nContent-Length: %d\n%s\n%s",
					b.method, b.target(target.path), b.contentType, len(b.body), b.headers, b.body))
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s took %s", what, took)
				}
				if !b.wanted(got.code) {
					t.Errorf("%s: got %d %s", what, got.code, shortened(got.body))
				}
			}
			if got := s.get(t, target.path, ""); got.code != http.StatusOK {
				t.Errorf("after all that: %d %s", got.code, shortened(got.body))
			}
		})
	}
}

// TestQuantityBombs sends quantities with large exponents, which no deadline ends, to the kinds that have quantities.
func TestQuantityBombs(t *testing.T) {
	const (
		balloon = `{"apiVersion":"node.k8s.io/v1alpha1","kind":"NodeBalloon","metadata":{"name":"bomb"},"spec":{"nodeSize":{"cpu":%q}}}`
		quota   = `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"bomb"},"spec":{"hard":{"configmaps":%q}}}`
	)
	for name, target := range map[string]struct{ address, path, format string }{
		"native":            {plain.host, "/api/v1/namespaces/default/resourcequotas", quota},
		"extension, behind": {plain.host, "/apis/node.k8s.io/v1alpha1/nodeballoons", balloon},
		"extension, direct": {plain.extension, "/apis/node.k8s.io/v1alpha1/nodeballoons", balloon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, target.address, plain.tls(t, plain.user(t, "bomber", "system:masters")))
			for _, text := range []string{"1e999999999", "1E1000000000", "-1e-1000000000", strings.Repeat("9", 65)} {
				for method, contentType := range map[string]string{http.MethodPost: jsonType, http.MethodPatch: applyType} {
					b := bomb{method: method, contentType: contentType, body: fmt.Sprintf(target.format, text), wants: []int{http.StatusBadRequest}}
					got, err := s.send(t.Context(), fmt.Sprintf("%s %s HTTP/1.1\nHost: a\nContent-Type: %s\nContent-Length: %d\n\n%s",
						b.method, b.target(target.path), b.contentType, len(b.body), b.body))
					if err != nil {
						t.Fatal(err)
					}
					if !b.wanted(got.code) {
						t.Errorf("%s of %s: got %d %s, want 400", method, text, got.code, shortened(got.body))
					}
				}
			}
		})
	}
}

// target is where the bomb goes to for a kind whose list is at a path.
func (b bomb) target(path string) string {
	switch {
	case b.method == http.MethodPost:
		return path + "?dryRun=All"
	case b.method == http.MethodDelete:
		return path + "/target?dryRun=All"
	case strings.Contains(b.contentType, "apply"):
		return path + "/target?fieldManager=bomber&force=true"
	}
	return path + "/target"
}

// wanted tells whether an answer is fine. A server that closes the connection on a request that is too long may do so before it is all sent.
func (b bomb) wanted(code int) bool {
	if code == 0 {
		return len(b.body)+len(b.headers) > 1<<20
	}
	if len(b.wants) == 0 {
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
	for _, want := range b.wants {
		if code == want {
			return true
		}
	}
	return false
}

// createOpenDefinition defines a kind that keeps all there is in its objects.
func createOpenDefinition(t *testing.T, client apiextensions.Interface) {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "opens.bombs.example.com"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "bombs.example.com", Scope: apiextensionsv1.ClusterScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "opens", Singular: "open", Kind: "Open", ListKind: "OpenList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)},
		}}},
	}}
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		return client.ApiextensionsV1().RESTClient().Post().AbsPath("/apis/bombs.example.com/v1/opens").
			Body([]byte(`{"apiVersion":"bombs.example.com/v1","kind":"Open","metadata":{"name":"target"}}`)).Do(context.WithoutCancel(t.Context())).Error()
	})
}
