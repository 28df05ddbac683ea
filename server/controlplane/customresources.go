// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"mime"
	"net/http"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
)

// The hook and the signal that signalDefinitionsSynced replaces.
const (
	upstreamSyncedHook   = "crd-informer-synced"
	upstreamSyncedSignal = "CRDInformerHasNotSynced"
)

// signalDefinitionsSynced replaces upstream's hook that waits until all custom resources are known. That polls every 100 ms and ends the process
// if the server begins to stop before; ours waits for the event and returns.
func signalDefinitionsSynced(server *apiextensionsapiserver.CustomResourceDefinitions) error {
	// Upstream's signal has no sender without upstream's hook.
	delete(server.GenericAPIServer.MuxAndDiscoveryCompleteSignals(), upstreamSyncedSignal)
	synced := make(chan struct{})
	if err := server.GenericAPIServer.RegisterMuxAndDiscoveryCompleteSignal("CustomResourceDefinitionsSynced", synced); err != nil {
		return fmt.Errorf("register the signal of custom resources: %w", err)
	}
	definitions := server.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer()
	err := server.GenericAPIServer.AddPostStartHook("custom-resource-definitions-synced", func(hook genericapiserver.PostStartHookContext) error {
		if cache.WaitForCacheSync(hook.Done(), definitions.HasSynced) {
			close(synced)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add the hook of custom resources: %w", err)
	}
	return nil
}

// withoutProtobuf answers 415 to protobuf for custom resources, which have none. Upstream's server panics when it decodes such a body.
type withoutProtobuf struct {
	genericapiserver.DelegationTarget
	definitions apiextensionslisters.CustomResourceDefinitionLister
	serializer  runtime.NegotiatedSerializer
}

func refuseProtobuf(server *apiextensionsapiserver.CustomResourceDefinitions, serializer runtime.NegotiatedSerializer) genericapiserver.DelegationTarget {
	return withoutProtobuf{server.GenericAPIServer, server.Informers.Apiextensions().V1().CustomResourceDefinitions().Lister(), serializer}
}

// UnprotectedHandler implements genericapiserver.DelegationTarget.
func (s withoutProtobuf) UnprotectedHandler() http.Handler {
	next := s.DelegationTarget.UnprotectedHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !sendsProtobuf(r) || !s.isCustom(info) {
			next.ServeHTTP(w, r)
			return
		}
		err := negotiation.NewUnsupportedMediaTypeError([]string{runtime.ContentTypeJSON, runtime.ContentTypeYAML})
		responsewriters.ErrorNegotiated(err, s.serializer, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
	})
}

// sendsProtobuf reports whether the body is a custom resource in protobuf. The body of a deletion is a DeleteOptions.
func sendsProtobuf(r *http.Request) bool {
	sent, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && sent == runtime.ContentTypeProtobuf && r.Method != http.MethodDelete
}

func (s withoutProtobuf) isCustom(info *request.RequestInfo) bool {
	if !info.IsResourceRequest {
		return false
	}
	_, err := s.definitions.Get(info.Resource + "." + info.APIGroup)
	return err == nil
}
