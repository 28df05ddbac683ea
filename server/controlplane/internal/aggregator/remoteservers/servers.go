// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remoteservers reaches the servers behind remote APIServices: where they are, with what transport, and with which certificate.
// The aggregator's proxy, its followers and the probes of availability all reach them in this way, so that what a probe finds is what users
// will.
package remoteservers

import (
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"
)

// Resolver finds the address of a service.
type Resolver interface {
	ResolveEndpoint(namespace, name string, port int32) (*url.URL, error)
}

// Servers are all servers behind remote APIServices.
type Servers struct {
	Resolver Resolver
	// ClientCertificate returns what Certificate does; nil if servers are shown nothing.
	ClientCertificate func() (cert, key []byte)
}

// Of names the server of a remote APIService. It is the same for APIServices that have the same server.
func Of(service *apiregistrationv1.APIService) string {
	reference := service.Spec.Service
	return fmt.Sprintf("%s/%s:%d %t %s", reference.Namespace, reference.Name, portOf(service), service.Spec.InsecureSkipTLSVerify, service.Spec.CABundle)
}

func portOf(service *apiregistrationv1.APIService) int32 {
	if port := service.Spec.Service.Port; port != nil {
		return *port
	}
	return 443
}

// URL returns where the APIService's server has a path.
func (s Servers) URL(service *apiregistrationv1.APIService, path string) (url.URL, error) {
	reference := service.Spec.Service
	endpoint, err := s.Resolver.ResolveEndpoint(reference.Namespace, reference.Name, portOf(service))
	if err != nil {
		return url.URL{}, fmt.Errorf("resolve service: %w", err)
	}
	return url.URL{Scheme: "https", Host: endpoint.Host, Path: path}, nil
}

// Transport returns the one to the APIService's server. Connections are shared by all who ask for it; it says nothing about a user.
func (s Servers) Transport(service *apiregistrationv1.APIService) (http.RoundTripper, error) {
	cert, key := s.Certificate()
	roundTripper, err := transport.New(remote.BuildTransportConfig(nil, cert, key, service))
	if err != nil {
		return nil, fmt.Errorf("set up TLS: %w", err)
	}
	return roundTripper, nil
}

// Certificate returns the certificate that the aggregator shows to servers now, and its key, in PEM. They are empty if it shows none.
func (s Servers) Certificate() (cert, key []byte) {
	if s.ClientCertificate == nil {
		return nil, nil
	}
	return s.ClientCertificate()
}
