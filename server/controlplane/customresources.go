// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
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
)

// withoutProtobuf is the server of custom resources, which have no protobuf. Upstream's tries to read it all the same, and panics.
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

// sendsProtobuf leaves deletions out: how to delete is said in an object of the server's own.
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
