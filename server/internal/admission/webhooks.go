// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"
)

const (
	// apiService is the service by which webhooks, too, may name the API server itself.
	apiService = "kubernetes"
	apiPort    = 443
	// apiHost is the same in a url.
	apiHost = apiService + "." + metav1.NamespaceDefault + ".svc"
	// maxAnswerBytes is what a webhook may answer. A patch can replace all of an object, which in base64 is 4 MiB at most.
	maxAnswerBytes = 8 << 20
)

// Credentials returns what decides with which credentials webhooks are called: those of the configuration file, or none. A webhook that is
// the service default/kubernetes is called with those of loopback, if there is one.
//
// What a kube-apiserver does beyond that is left out: it also sends them, or those of the pod it runs in, to whatever a name server
// says is kubernetes.default.svc, and it follows redirects.
func Credentials(loopback *rest.Config, tracer trace.TracerProvider) webhook.AuthenticationInfoResolverWrapper {
	return func(configured webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
				if hostPort == fmt.Sprintf("%s:%d", apiHost, apiPort) {
					hostPort = apiHost // without a port it is not special
				}
				return restricted(tracer)(configured.ClientConfigFor(hostPort))
			},
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				if loopback != nil && name == apiService && namespace == metav1.NamespaceDefault && port == apiPort {
					return restricted(tracer)(rest.CopyConfig(loopback), nil)
				}
				return restricted(tracer)(configured.ClientConfigForService(name, namespace, port))
			},
		}
	}
}

func restricted(tracer trace.TracerProvider) func(*rest.Config, error) (*rest.Config, error) {
	return func(config *rest.Config, err error) (*rest.Config, error) {
		if err != nil {
			return nil, err
		}
		config.Wrap(tracing.WrapperFor(tracer))
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return plainAnswers{next} })
		return config, nil
	}
}

// plainAnswers refuses redirects, by which a webhook could have the server ask addresses that only the server reaches, and ends
// answers that would fill its memory.
type plainAnswers struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p plainAnswers) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := p.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusBadRequest {
		_ = response.Body.Close()
		return nil, fmt.Errorf("it answers with the redirect %q, and redirects are not followed", response.Status)
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxAnswerBytes)
	return response, nil
}

// WrappedRoundTripper lets the library see what is wrapped.
func (p plainAnswers) WrappedRoundTripper() http.RoundTripper { return p.next }
