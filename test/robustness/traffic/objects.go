// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/test/robustness/validate"
)

// Objects say on what clients work.
type Objects struct {
	Resource        schema.GroupVersionResource
	Kind, Namespace string
	// Field and Key are where the value is: one string in a map of the object.
	Field, Key string
	// Suffix ends the names.
	Suffix string
}

// ClusterClaims are served by the extension apiserver.
func ClusterClaims() Objects {
	return Objects{
		Resource: v1alpha1.SchemeGroupVersion.WithResource("clusterclaims"),
		Kind:     "ClusterClaim", Field: "spec", Key: "value", Suffix: ".load.example.com",
	}
}

// ConfigMaps are served by the control plane.
func ConfigMaps(namespace string) Objects {
	return Objects{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Kind:     "ConfigMap", Namespace: namespace, Field: "data", Key: "value",
	}
}

// path is where the collection is.
func (o Objects) path() string {
	base := "/apis/" + o.Resource.Group
	if o.Resource.Group == "" {
		base = "/api"
	}
	base += "/" + o.Resource.Version
	if o.Namespace != "" {
		base += "/namespaces/" + o.Namespace
	}
	return base + "/" + o.Resource.Resource
}

type metadata struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion"`
}

// body is what is sent. Padding makes it larger.
func (o Objects) body(name, value string, version int64, padding string) ([]byte, error) {
	described := map[string]any{"name": name}
	if version > 0 {
		described["resourceVersion"] = strconv.FormatInt(version, 10)
	}
	if padding != "" {
		described["annotations"] = map[string]string{"annex.test/padding": padding}
	}
	return json.Marshal(map[string]any{
		"apiVersion": o.Resource.GroupVersion().String(), "kind": o.Kind, "metadata": described, o.Field: map[string]string{o.Key: value},
	})
}

// patch gives an object another value.
func (o Objects) patch(value, padding string) ([]byte, error) {
	merge := map[string]any{o.Field: map[string]string{o.Key: value}}
	if padding != "" {
		merge["metadata"] = map[string]any{"annotations": map[string]string{"annex.test/padding": padding}}
	}
	return json.Marshal(merge)
}

// read takes an object out of an answer.
func (o Objects) read(content []byte) (validate.Item, error) {
	var found map[string]json.RawMessage
	if err := json.Unmarshal(content, &found); err != nil {
		return validate.Item{}, err
	}
	return o.take(found)
}

func (o Objects) take(found map[string]json.RawMessage) (validate.Item, error) {
	var described metadata
	if err := json.Unmarshal(found["metadata"], &described); err != nil {
		return validate.Item{}, fmt.Errorf("read the metadata of an object: %w", err)
	}
	version, err := strconv.ParseInt(described.ResourceVersion, 10, 64)
	if err != nil {
		return validate.Item{}, fmt.Errorf("read the resource version of %s: %w", described.Name, err)
	}
	var field map[string]json.RawMessage
	if raw := found[o.Field]; raw != nil {
		if err := json.Unmarshal(raw, &field); err != nil {
			return validate.Item{}, fmt.Errorf("read the value of %s: %w", described.Name, err)
		}
	}
	value := ""
	if raw := field[o.Key]; raw != nil {
		if err := json.Unmarshal(raw, &value); err != nil {
			return validate.Item{}, fmt.Errorf("read the value of %s: %w", described.Name, err)
		}
	}
	return validate.Item{Name: described.Name, Value: value, Version: version}, nil
}

// readList takes all objects out of a list, and its version.
func (o Objects) readList(content []byte) ([]validate.Item, int64, error) {
	var list struct {
		Metadata metadata                     `json:"metadata"`
		Items    []map[string]json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, 0, err
	}
	version, err := strconv.ParseInt(list.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("read the resource version of a list: %w", err)
	}
	var items []validate.Item
	for _, found := range list.Items {
		read, err := o.take(found)
		if err != nil {
			return nil, 0, err
		}
		items = append(items, read)
	}
	return items, version, nil
}
