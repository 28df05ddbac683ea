// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// Group gathers the endpoints of one served group-version.
type Group struct {
	scheme   *runtime.Scheme
	codecs   serializer.CodecFactory
	getter   generic.RESTOptionsGetter
	version  schema.GroupVersion
	permits  Permits
	admit    admission.Interface
	storages map[string]rest.Storage
}

// NewGroup returns an empty group whose kinds are stored as getter says.
func NewGroup(scheme *runtime.Scheme, codecs serializer.CodecFactory, getter generic.RESTOptionsGetter, version schema.GroupVersion) *Group {
	return &Group{scheme: scheme, codecs: codecs, getter: getter, version: version, storages: map[string]rest.Storage{}}
}

// Gate has features decide about the gated kinds and fields that are added from now on. Without it everything is permitted.
func (g *Group) Gate(permits Permits) *Group {
	g.permits = permits
	return g
}

// Admit sets the admission of the server, for endpoints that write objects of other kinds than their own.
func (g *Group) Admit(admit admission.Interface) *Group {
	g.admit = admit
	return g
}

// Admission returns the admission of the server; nil admits everything.
func (g *Group) Admission() admission.Interface { return g.admit }

// Scheme returns the scheme of the server.
func (g *Group) Scheme() *runtime.Scheme { return g.scheme }

// Version returns the served group-version.
func (g *Group) Version() schema.GroupVersion { return g.version }

// Add serves a storage at "plural" or "plural/subresource".
func (g *Group) Add(path string, storage rest.Storage) { g.storages[path] = storage }

// Storage returns what is served at a path, or nil.
func (g *Group) Storage(path string) rest.Storage { return g.storages[path] }

// Destroy releases the storages of a group that will not be served.
func (g *Group) Destroy() {
	for _, storage := range g.storages {
		storage.Destroy()
	}
}

// APIGroupInfo returns the group in the form that a generic apiserver installs.
func (g *Group) APIGroupInfo() *genericapiserver.APIGroupInfo {
	info := genericapiserver.NewDefaultAPIGroupInfo(g.version.Group, g.scheme, runtime.NewParameterCodec(g.scheme), g.codecs)
	info.PrioritizedVersions = []schema.GroupVersion{g.version}
	info.VersionedResourcesStorageMap[g.version.Version] = g.storages
	return &info
}
