// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// coreEvents has Events stored in the legacy group's version. The server's scheme does not have it where that group is switched
// off, so they are encoded by one of their own.
type coreEvents struct{ generic.RESTOptionsGetter }

func asCoreEvents(getter generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return coreEvents{getter}
}

// GetRESTOptions implements generic.RESTOptionsGetter. Without an example the server does not look for the type in its scheme.
func (g coreEvents) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, nil)
	if err != nil {
		return options, err
	}
	config := *options.StorageConfig
	options.StorageConfig = &config
	return options, encodeAsCore(&config)
}

func encodeAsCore(config *storagebackend.ConfigForResource) error {
	internal := schema.GroupVersion{Group: GroupVersion.Group, Version: runtime.APIVersionInternal}
	scheme := runtime.NewScheme()
	for _, version := range []schema.GroupVersion{GroupVersion, internal} {
		scheme.AddKnownTypes(version, &corev1.Event{}, &corev1.EventList{})
	}
	var err error
	config.Codec, _, err = serverstorage.NewStorageCodec(serverstorage.StorageCodecConfig{
		StorageMediaType: runtime.ContentTypeProtobuf, StorageSerializer: serializer.NewCodecFactory(scheme),
		StorageVersion: GroupVersion, MemoryVersion: internal, Config: config.Config,
	})
	if err != nil {
		return fmt.Errorf("make the codec of stored events: %w", err)
	}
	// What the type is stored as is looked up in the server's scheme, by whichever group has the type there.
	config.EncodeVersioner = runtime.NewMultiGroupVersioner(GroupVersion, schema.GroupKind{Kind: "Event"}, schema.GroupKind{Group: "events.k8s.io", Kind: "Event"})
	return nil
}
