// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/test/framework"
)

// maxTold is how much of what a server answered, that is no webhook, an error may tell.
const maxTold = 2048

// TestSSRF has those who may write APIServices, webhook configurations and definitions send the control plane where they cannot go themselves.
func TestSSRF(t *testing.T) {
	t.Parallel()
	t.Run("AnAPIServiceLeadsToTheExtensionAlone", servicesLeadNowhere)
	t.Run("WebhooksAreReachedByHTTPSAlone", urlsOfWebhooks)
	t.Run("AWebhooksAnswerIsNotToldAtLength", answersOfWebhooks)
	t.Run("AConversionsAnswerIsNotToldAtLength", answersOfConversions)
}

// servicesLeadNowhere names what there may be on the machine by services: no name is looked up, and no port of the extension's service but
// its own is tried.
func servicesLeadNowhere(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	internal := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(internal.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(internal.URL, "https://"), ":")
	var number int32
	if _, err := fmt.Sscan(port, &number); err != nil {
		t.Fatal(err)
	}
	config, _, _ := plain.admin(t)
	client := aggregatorclient.NewForConfigOrDie(config).ApiregistrationV1().APIServices()
	for i, service := range []apiregistrationv1.ServiceReference{
		{Namespace: "default", Name: "kubernetes", Port: ptr.To[int32](443)},
		{Namespace: "default", Name: "localhost", Port: &number},
		{Namespace: "annex-system", Name: "annex-apiserver", Port: &number},
		{Namespace: "annex-system", Name: "annex-apiserver", Port: ptr.To[int32](2379)},
		{Namespace: "0.0.1", Name: "127", Port: &number}, // 127.0.0.1 is made of it where names are put together
	} {
		name := fmt.Sprintf("v1.ssrf%d.example.com", i)
		_, err := client.Create(t.Context(), &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apiregistrationv1.APIServiceSpec{
			Group: strings.TrimPrefix(name, "v1."), Version: "v1", GroupPriorityMinimum: 1, VersionPriority: 1, InsecureSkipTLSVerify: true, Service: &service,
		}}, metav1.CreateOptions{})
		if apierrors.IsInvalid(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Delete(t.Context(), name, metav1.DeleteOptions{}) })
		framework.Eventually(t, patience, func() error {
			got, err := client.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			condition := helper.GetAPIServiceConditionByType(got, apiregistrationv1.Available)
			if condition == nil || condition.Status != apiregistrationv1.ConditionFalse || !strings.Contains(condition.Message, "there is no service") {
				return fmt.Errorf("%s/%s: condition %+v, want none such", service.Namespace, service.Name, condition)
			}
			return nil
		})
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the server on the machine was asked %d times", n)
	}
}

func urlsOfWebhooks(t *testing.T) {
	t.Parallel()
	_, kube, _ := plain.admin(t)
	all := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	for url, refused := range map[string]bool{
		"http://169.254.169.254/latest/meta-data": true, "http://127.0.0.1:2379/": true, "file:///etc/passwd": true, "unix:///run/x.sock": true, "gopher://127.0.0.1:25/": true,
		"https://user:password@127.0.0.1/": true, "https://127.0.0.1/?query=1": true, "https://127.0.0.1/#fragment": true, "//127.0.0.1/": true, "127.0.0.1": true, "https:///path": true,
		"https://127.0.0.1:1/path": false,
	} {
		hook := admissionregistrationv1.ValidatingWebhook{
			Name: "ssrf.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}
		_, err := all.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "ssrf"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if refused != apierrors.IsInvalid(err) || !refused && err != nil {
			t.Errorf("%s: got %v, want a refusal: %t", url, err, refused)
		}
	}
}

// told judges an error that a caller of the control plane gets when a webhook answered with the long text of another server.
func told(err error, text string) error {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) || status.Status().Code != http.StatusInternalServerError {
		return fmt.Errorf("got %w, want 500", err)
	}
	if n := strings.Count(err.Error(), text); n*len(text) > maxTold {
		return fmt.Errorf("it tells %d bytes of the answer: %s", n*len(text), shortened(err.Error()))
	}
	return nil
}

func answersOfWebhooks(t *testing.T) {
	t.Parallel()
	_, kube, _ := plain.admin(t)
	namespace(t, kube, "ssrf")
	const line = "internal-page "
	for code, contentType := range map[int]string{200: "text/plain", 404: "text/plain", 500: "text/html", 503: "application/json"} {
		label := fmt.Sprintf("ssrf-%d", code)
		server := admissiontest.Serve(t, func(w http.ResponseWriter, _ *http.Request, _ *admissionv1.AdmissionReview) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, strings.Repeat(line, 100_000))
		})
		admissiontest.Validate(t, kube, label, admissionregistrationv1.ValidatingWebhook{
			ClientConfig: server.ByURL("/"), NamespaceSelector: admissiontest.In("ssrf"), ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: "yes"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		})
		framework.Eventually(t, patience, func() error {
			_, err := kube.CoreV1().ConfigMaps("ssrf").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: label, Labels: map[string]string{label: "yes"}}},
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return told(err, line)
		})
	}
}

// answersOfConversions has a definition whose versions some server on the machine should convert, which is none and tries to redirect.
func answersOfConversions(t *testing.T) {
	t.Parallel()
	const line = "internal-page "
	var away atomic.Int32
	target := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { away.Add(1) }))
	t.Cleanup(target.Close)
	internal := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
			return
		}
		_, _ = io.WriteString(w, strings.Repeat(line, 100_000))
	}))
	t.Cleanup(internal.Close)
	config, _, _ := plain.admin(t)
	definitions := apiextensions.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions()
	for _, path := range []string{"page", "redirect"} {
		plural := path + "s"
		version := func(name string, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
			return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: stored, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)},
			}}
		}
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".ssrf.example.com"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "ssrf.example.com", Scope: apiextensionsv1.ClusterScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: path, Kind: strings.ToUpper(path), ListKind: strings.ToUpper(path) + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig: &apiextensionsv1.WebhookClientConfig{
					URL:      ptr.To(internal.URL + "/" + path),
					CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: internal.Certificate().Raw}),
				},
			}},
		}}
		if _, err := definitions.Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		client := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: "ssrf.example.com", Version: "v2", Resource: plural})
		framework.Eventually(t, patience, func() error {
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "ssrf.example.com/v2", "kind": strings.ToUpper(path), "metadata": map[string]any{"name": "a"}}}
			_, err := client.Create(t.Context(), object, metav1.CreateOptions{})
			if !strings.Contains(fmt.Sprint(err), "onversion") {
				return fmt.Errorf("got %w, want one about conversion", err)
			}
			return told(err, line)
		})
	}
	if n := away.Load(); n > 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
}

// namespace makes one that goes with the test.
func namespace(t *testing.T, kube kubernetes.Interface, name string) {
	t.Helper()
	if _, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error { // Controllers make what belongs into it.
		_, err := kube.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}
