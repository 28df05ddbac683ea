// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admissiontest has webhooks for tests of admission. It is not a stable API.
package admissiontest

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// Host is the name, beside 127.0.0.1, that the certificates of webhooks are for: that of the service webhook in the namespace default.
const Host = "webhook.default.svc"

// Webhook is a server for webhooks. It is stopped with the test.
type Webhook struct {
	server    *httptest.Server
	authority []byte

	mu      sync.Mutex
	reviews []admissionv1.AdmissionRequest
	headers []http.Header
}

// Start serves webhooks that answer each review as the function says.
func Start(t testing.TB, answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) *Webhook {
	t.Helper()
	return Serve(t, func(w http.ResponseWriter, _ *http.Request, review *admissionv1.AdmissionReview) {
		response := answer(review.Request)
		response.UID = review.Request.UID
		_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
	})
}

// Serve serves webhooks that answer anything.
func Serve(t testing.TB, answer func(http.ResponseWriter, *http.Request, *admissionv1.AdmissionReview)) *Webhook {
	t.Helper()
	directory, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := directory.Authority("ca", "webhook-ca")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Serving("webhook", Host, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(serving.CertFile, serving.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	w := &Webhook{authority: authority.CertPEM()}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(request.Body).Decode(review); err != nil || review.Request == nil {
			http.Error(writer, "no AdmissionReview", http.StatusBadRequest)
			return
		}
		w.mu.Lock()
		w.reviews = append(w.reviews, *review.Request)
		w.headers = append(w.headers, request.Header)
		w.mu.Unlock()
		answer(writer, request, review)
	}))
	w.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	return w
}

// Stop ends the server, so that the webhooks are down.
func (w *Webhook) Stop() { w.server.Close() }

// Reviews are what the webhooks have been asked.
func (w *Webhook) Reviews() []admissionv1.AdmissionRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]admissionv1.AdmissionRequest(nil), w.reviews...)
}

// Headers are those that the reviews came with.
func (w *Webhook) Headers() []http.Header {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]http.Header(nil), w.headers...)
}

// ByURL configures a webhook by the address of the server.
func (w *Webhook) ByURL(path string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: ptr.To(w.server.URL + path), CABundle: w.authority}
}

// ByService configures a webhook as the service webhook in the namespace default, which the server is for whoever uses Resolve.
func (w *Webhook) ByService(path string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		Service:  &admissionregistrationv1.ServiceReference{Namespace: metav1.NamespaceDefault, Name: "webhook", Path: ptr.To(path), Port: ptr.To[int32](443)},
		CABundle: w.authority,
	}
}

// ResolveEndpoint resolves every service to the server.
func (w *Webhook) ResolveEndpoint(string, string, int32) (*url.URL, error) {
	return url.Parse(w.server.URL)
}

// Address is where the server listens.
func (w *Webhook) Address() net.Addr { return w.server.Listener.Addr() }

// Allow lets everything pass.
func Allow(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// Deny refuses everything with a message.
func Deny(message string) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: message, Code: http.StatusForbidden}}
	}
}

// Patch changes every object with a JSON patch.
func Patch(patch string) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: ptr.To(admissionv1.PatchTypeJSONPatch)}
	}
}

// Rule is about writes of one resource.
func Rule(group, version, resource string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
	}
}
