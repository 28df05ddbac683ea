// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// valueSize makes an object of about 1 KiB.
const valueSize = 700

// kind is what a peer stores. All kinds hold one value of the same size.
type kind struct {
	apiVersion, name, path string
	// before and after are around the value in an object's JSON.
	before, after string
	// protobuf says that the kind can be had in it.
	protobuf bool
}

const customGroup = "bench.example.com"

var (
	claims = kind{
		apiVersion: "multicluster.k8s.io/v1alpha1", name: "ClusterClaim", path: "/apis/multicluster.k8s.io/v1alpha1/clusterclaims",
		before: `"spec":{"value":"`, after: `"}`, protobuf: true,
	}
	customs = kind{
		apiVersion: customGroup + "/v1alpha1", name: "ClusterClaim", path: "/apis/" + customGroup + "/v1alpha1/clusterclaims",
		before: `"spec":{"value":"`, after: `"}`,
	}
	configMaps = kind{
		apiVersion: "v1", name: "ConfigMap", path: "/api/v1/namespaces/default/configmaps",
		before: `"data":{"value":"`, after: `"}`, protobuf: true,
	}
	// Of the kinds of sample-apiserver this is the cluster-scoped one.
	fischers = kind{
		apiVersion: "wardle.example.com/v1alpha1", name: "Fischer", path: "/apis/wardle.example.com/v1alpha1/fischers",
		before: `"disallowedFlunders":["`, after: `"]`,
	}
)

// object returns an object; the revision may be empty.
func (k kind) object(name, revision, value string) []byte {
	if revision != "" {
		revision = `,"resourceVersion":"` + revision + `"`
	}
	return []byte(`{"apiVersion":"` + k.apiVersion + `","kind":"` + k.name + `","metadata":{"name":"` + name + `"` + revision +
		`,"labels":{"bench":"yes"}},` + k.before + value + k.after + `}`)
}

// change returns a merge patch of the value.
func (k kind) change(value string) []byte { return []byte("{" + k.before + value + k.after + "}") }

var padding = strings.Repeat(".", valueSize)

// value returns a value that begins with the text.
func value(text string) string { return text + padding[len(text):] }

// storedName is the name of an object that is there from the beginning.
func storedName(i int) string { return fmt.Sprintf("stored-%d.example.com", i) }
