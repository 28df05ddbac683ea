// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package availability

import (
	"fmt"
	"net/http"
	"net/url"
	"os"

	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"
)

// Servers reaches the servers behind remote APIServices as the aggregator does.
type Servers struct {
	Resolver Resolver
	// CertFile and KeyFile have the certificate that the aggregator shows to the servers.
	CertFile, KeyFile string
}

// URL returns where the APIService's server has a path.
func (s Servers) URL(service *apiregistrationv1.APIService, path string) (url.URL, error) {
	reference := service.Spec.Service
	port := int32(443)
	if reference.Port != nil {
		port = *reference.Port
	}
	endpoint, err := s.Resolver.ResolveEndpoint(reference.Namespace, reference.Name, port)
	if err != nil {
		return url.URL{}, fmt.Errorf("resolve service: %w", err)
	}
	return url.URL{Scheme: "https", Host: endpoint.Host, Path: path}, nil
}

// Transport returns the one that the aggregator proxies with, connections included. It says nothing about a user.
func (s Servers) Transport(service *apiregistrationv1.APIService) (http.RoundTripper, error) {
	var cert, key []byte
	if s.CertFile != "" {
		var err error
		if cert, err = os.ReadFile(s.CertFile); err != nil {
			return nil, fmt.Errorf("read --proxy-client-cert-file: %w", err)
		}
		if key, err = os.ReadFile(s.KeyFile); err != nil {
			return nil, fmt.Errorf("read --proxy-client-key-file: %w", err)
		}
	}
	roundTripper, err := transport.New(remote.BuildTransportConfig(nil, cert, key, service))
	if err != nil {
		return nil, fmt.Errorf("set up TLS: %w", err)
	}
	return roundTripper, nil
}
