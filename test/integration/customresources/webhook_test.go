// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// conversions is a webhook that converts between v1, which has spec.size, and v2, which has spec.dimensions.size.
type conversions struct {
	*httptest.Server
	authority []byte
	asked     atomic.Int32
}

func startConversions(t *testing.T) *conversions {
	t.Helper()
	directory, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := directory.Authority("ca", "conversion-ca")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Serving("conversion", "conversion.default.svc", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	c := &conversions{authority: authority.CertPEM()}
	c.Server = httptest.NewUnstartedServer(c)
	c.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

// ResolveEndpoint resolves every service to the webhook.
func (c *conversions) ResolveEndpoint(string, string, int32) (*url.URL, error) {
	return url.Parse(c.URL)
}

// by says how a definition's objects are converted: at a path of the webhook, which says what it does.
func (c *conversions) by(path string) *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				CABundle: c.authority,
				Service:  &apiextensionsv1.ServiceReference{Namespace: "default", Name: "conversion", Path: ptr.To(path), Port: ptr.To[int32](443)},
			},
		},
	}
}

// convert is one of the ways in which the webhook answers, by path.
var convert = map[string]func(*unstructured.Unstructured, string) error{
	"/good": func(object *unstructured.Unstructured, version string) error {
		object.SetAPIVersion(version)
		from, to := []string{"spec", "size"}, []string{"spec", "dimensions", "size"}
		if version == group+"/v1" {
			from, to = to, from
		}
		size, ok, err := unstructured.NestedInt64(object.Object, from...)
		if err != nil || !ok {
			return err
		}
		object.Object["spec"] = map[string]any{}
		return unstructured.SetNestedField(object.Object, size, to...)
	},
	"/refuses":      func(*unstructured.Unstructured, string) error { return fmt.Errorf("this one is not to be converted") },
	"/does-nothing": func(*unstructured.Unstructured, string) error { return nil },
	"/renames": func(object *unstructured.Unstructured, version string) error {
		object.SetAPIVersion(version)
		object.SetName("another")
		return nil
	},
}

func (c *conversions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.asked.Add(1)
	review := apiextensionsv1.ConversionReview{}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	change, ok := convert[r.URL.Path]
	if !ok {
		http.Error(w, "no such way to convert", http.StatusInternalServerError)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		object := &unstructured.Unstructured{}
		err := json.Unmarshal(raw.Raw, object)
		if err == nil {
			err = change(object, review.Request.DesiredAPIVersion)
		}
		if err != nil {
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: object})
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}
