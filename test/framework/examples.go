// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Examples returns the objects of artifacts/examples, the cluster's own id first and the others in the order of `kubectl apply -f`. root
// is the repository as seen from the test's directory.
func Examples(t testing.TB, root string) []*unstructured.Unstructured {
	t.Helper()
	id := objectsIn(t, filepath.Join(root, "artifacts", "examples", "own-id", "*.yaml"))
	return append(id, objectsIn(t, filepath.Join(root, "artifacts", "examples", "*.yaml"))...)
}

// CreateOnlyExamples returns the objects that are answered and never stored.
func CreateOnlyExamples(t testing.TB, root string) []*unstructured.Unstructured {
	t.Helper()
	return objectsIn(t, filepath.Join(root, "artifacts", "examples", "create-only", "*.yaml"))
}

func objectsIn(t testing.TB, pattern string) []*unstructured.Unstructured {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples at %s (%v)", pattern, err)
	}
	var out []*unstructured.Unstructured
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			obj := &unstructured.Unstructured{}
			if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if len(obj.Object) > 0 {
				out = append(out, obj)
			}
		}
	}
	return out
}
