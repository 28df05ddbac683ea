// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterproperties

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// maxInput limits what Read reads. A ClusterProperty has at most 128 KiB, and most have less than 1 KiB.
const maxInput = 16 << 20

// Read reads objects from YAML documents or JSON, each an object or a list of them, of 16 MiB together.
func Read(from io.Reader) ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	limited := &io.LimitedReader{R: from, N: maxInput + 1}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bufio.NewReader(limited), 4096)
	for document := 1; ; document++ {
		var fields map[string]any
		switch err := decoder.Decode(&fields); {
		case limited.N == 0:
			return nil, fmt.Errorf("read document %d: there are more than %d bytes; split them, and import the parts one after the other", document, maxInput)
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("read document %d: %w; give YAML or JSON as `annex claims export -o yaml` prints it", document, err)
		case len(fields) == 0:
			continue
		}
		object := unstructured.Unstructured{Object: fields}
		if !object.IsList() {
			objects = append(objects, object)
			continue
		}
		err := object.EachListItem(func(item runtime.Object) error {
			one, ok := item.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("an item is a %T", item)
			}
			objects = append(objects, *one)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read document %d: %w; give a list of objects", document, err)
		}
	}
}

// WriteYAML writes the objects of items that are not refused, as Read and kubectl apply read them.
func WriteYAML(to io.Writer, items []Item) error {
	var all bytes.Buffer
	for _, item := range items {
		if item.Object == nil {
			continue
		}
		text, err := json.Marshal(item.Object.Object)
		if err == nil {
			text, err = yaml.JSONToYAML(escaped(text))
		}
		if err != nil {
			return fmt.Errorf("encode %s: %w", item.Name, err)
		}
		if all.Len() > 0 {
			all.WriteString("---\n")
		}
		all.Write(text)
	}
	return write(to, all.Bytes())
}

// escaped spells out the characters of JSON that must not stand in YAML as they are.
func escaped(text []byte) []byte {
	var all bytes.Buffer
	for _, r := range string(text) {
		if r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&all, `\u%04x`, r)
		} else {
			all.WriteRune(r)
		}
	}
	return all.Bytes()
}

// WriteJSON writes them as one list.
func WriteJSON(to io.Writer, items []Item) error {
	objects := []any{}
	for _, item := range items {
		if item.Object != nil {
			objects = append(objects, item.Object.Object)
		}
	}
	text, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}, "", "    ")
	if err != nil {
		return fmt.Errorf("encode the objects: %w", err)
	}
	return write(to, append(text, '\n'))
}

// WriteNames writes one name a line, as kubectl does.
func WriteNames(to io.Writer, items []Item) error {
	var all bytes.Buffer
	for _, item := range items {
		if item.Object != nil {
			kind := item.Object.GroupVersionKind()
			fmt.Fprintf(&all, "%s.%s/%s\n", strings.ToLower(kind.Kind), kind.Group, item.Name)
		}
	}
	return write(to, all.Bytes())
}

// WriteTable writes a line an object, with the beginning of the value.
func WriteTable(to io.Writer, items []Item) error {
	var all bytes.Buffer
	table := tabwriter.NewWriter(&all, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAME\tFROM\tVALUE")
	for _, item := range items {
		if item.Object != nil {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", item.Name, item.From, firstLine(valueOf(item.Object)))
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the objects: %w", err)
	}
	return write(to, all.Bytes())
}

// firstLine is what fits into a table of a value, without what a terminal would obey.
func firstLine(value string) string {
	line, _, _ := strings.Cut(value, "\n")
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, line)
	if runes := []rune(line); len(runes) > maxShownRunes {
		line = string(runes[:maxShownRunes])
	}
	return strings.TrimSpace(line)
}

func write(to io.Writer, text []byte) error {
	if _, err := to.Write(text); err != nil {
		return fmt.Errorf("write the objects: %w", err)
	}
	return nil
}
