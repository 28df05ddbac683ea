// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package jars

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
)

// place stores all resources as it is told, but jars as JSON in one version, at a place of that version.
type place struct {
	generic.RESTOptionsGetter
	codecs  serializer.CodecFactory
	version schema.GroupVersion
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (p place) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := p.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || resource != resourceOf(p.version).GroupResource() {
		return options, err
	}
	options.ResourcePrefix = resource.Group + "/" + p.version.Version + "/" + resource.Resource
	info, _ := runtime.SerializerInfoForMediaType(p.codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	hub := schema.GroupVersion{Group: resource.Group, Version: runtime.APIVersionInternal}
	options.StorageConfig.Codec = p.codecs.CodecForVersions(info.Serializer, p.codecs.UniversalDeserializer(), p.version, hub)
	return options, nil
}
