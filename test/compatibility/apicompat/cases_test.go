// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// corpusFile is cases of one resource; the name has what they are about after the resource's, if there is more than one file.
type corpusFile struct {
	path, name, group, resource string
}

// testCase is one document of a corpus file; the package comment says what it may have.
type testCase struct {
	Name    string `json:"name"`
	Object  object `json:"object"`
	Then    []step `json:"then,omitempty"`
	Differs string `json:"differs,omitempty"`
}

// step is one request after the object was created. It has one of Patch, Strategic, JSON, Put, Apply and Delete.
type step struct {
	Patch       object `json:"patch,omitempty"`
	Strategic   object `json:"strategic,omitempty"`
	JSON        list   `json:"json,omitempty"`
	Put         object `json:"put,omitempty"`
	Apply       object `json:"apply,omitempty"`
	Delete      bool   `json:"delete,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Force       bool   `json:"force,omitempty"`
}

// object keeps numbers as they are and has its repetitions spelled out.
type object map[string]any

func (o *object) UnmarshalJSON(data []byte) error {
	var in map[string]any
	if err := utiljson.Unmarshal(data, &in); err != nil {
		return err
	}
	*o, _ = expand(in).(map[string]any)
	return nil
}

// list is as object is.
type list []any

func (l *list) UnmarshalJSON(data []byte) error {
	var in map[string]any
	if err := utiljson.Unmarshal(slices.Concat([]byte(`{"":`), data, []byte(`}`)), &in); err != nil {
		return err
	}
	var ok bool
	if *l, ok = expand(in[""]).([]any); !ok {
		return errors.New("a list is needed")
	}
	return nil
}

func (o object) metadata(key string) string {
	metadata, _ := o["metadata"].(map[string]any)
	value, _ := metadata[key].(string)
	return value
}

var repetition = regexp.MustCompile(`\$\{([^*}]+)\*(\d+)\}`)

func expand(value any) any {
	switch value := value.(type) {
	case string:
		return expandText(value)
	case []any:
		for i := range value {
			value[i] = expand(value[i])
		}
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, inner := range value {
			out[expandText(key)] = expand(inner)
		}
		return out
	}
	return value
}

func expandText(text string) string {
	return repetition.ReplaceAllStringFunc(text, func(found string) string {
		parts := repetition.FindStringSubmatch(found)
		// Digits that are no number make an empty string, which no case wants.
		count, _ := strconv.Atoi(parts[2])
		return strings.Repeat(parts[1], count)
	})
}

// corpusFiles lists all files below a directory, in the order of their names, without reading them.
func corpusFiles(dir string) ([]corpusFile, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []corpusFile
	for _, path := range paths {
		group := filepath.Base(filepath.Dir(path))
		if group == "core" {
			group = ""
		}
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		resource, _, _ := strings.Cut(name, ".")
		out = append(out, corpusFile{path: path, name: name, group: group, resource: resource})
	}
	return out, nil
}

func (f corpusFile) cases() ([]testCase, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	cases, err := readCases(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return cases, nil
}

// readCases refuses what it does not know: a step that is not taken would be a test that does not test.
func readCases(in io.Reader) ([]testCase, error) {
	var out []testCase
	names := map[string]bool{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
		if string(content) == "null" {
			continue
		}
		var c testCase
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&c); err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
		if err := c.check(names); err != nil {
			return nil, fmt.Errorf("document %d, %q: %w", number, c.Name, err)
		}
		out = append(out, c)
	}
}

func (c testCase) check(names map[string]bool) error {
	if c.Name == "" || c.Object == nil {
		return errors.New("a case needs a name and an object")
	}
	if names[c.Name] {
		return errors.New("another case has this name")
	}
	names[c.Name] = true
	for i, s := range c.Then {
		actions := 0
		for _, has := range []bool{s.Patch != nil, s.Strategic != nil, s.JSON != nil, s.Put != nil, s.Apply != nil, s.Delete} {
			if has {
				actions++
			}
		}
		if actions != 1 {
			return fmt.Errorf("step %d needs one of patch, strategic, json, put, apply and delete", i+1)
		}
		if s.Force && s.Apply == nil || s.Subresource != "" && s.Delete {
			return fmt.Errorf("step %d has what its request cannot have", i+1)
		}
	}
	return nil
}
