// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package degraded

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework"
)

// moody is a server of webhooks that breaks in one way after another, and works again each time.
type moody struct {
	server      *httptest.Server
	authority   []byte
	certificate atomic.Pointer[tls.Certificate]
	answer      atomic.Pointer[func(http.ResponseWriter, *http.Request, *admissionv1.AdmissionReview)]
}

func startMoody(t *testing.T) *moody {
	t.Helper()
	m := &moody{}
	m.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		(*m.answer.Load())(w, r, review)
	}))
	m.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*m.certificate.Load()}}, nil
	}}
	m.server.Config.SetKeepAlivesEnabled(false) // each call sees the certificate of now
	m.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	m.server.StartTLS()
	t.Cleanup(m.server.Close)
	m.authority = m.show(t, "127.0.0.1")
	m.say(allow)
	return m
}

// show has the server show a certificate for the hosts, signed by an authority of its own, which is returned.
func (m *moody) show(t *testing.T, hosts ...string) []byte {
	t.Helper()
	directory, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := directory.Authority("ca", "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Serving("webhooks", hosts...)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(serving.CertFile, serving.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	m.certificate.Store(&pair)
	return authority.CertPEM()
}

func (m *moody) say(answer func(http.ResponseWriter, *http.Request, *admissionv1.AdmissionReview)) {
	m.answer.Store(&answer)
}

func respond(w http.ResponseWriter, review *admissionv1.AdmissionReview, response admissionv1.AdmissionResponse) {
	response.UID = review.Request.UID
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: &response})
}

func allow(w http.ResponseWriter, _ *http.Request, review *admissionv1.AdmissionReview) {
	respond(w, review, admissionv1.AdmissionResponse{Allowed: true})
}

func fail(w http.ResponseWriter, _ *http.Request, _ *admissionv1.AdmissionReview) {
	w.WriteHeader(http.StatusInternalServerError)
}

// hangUp is what becomes of a request whose handler panics.
func hangUp(w http.ResponseWriter, _ *http.Request, _ *admissionv1.AdmissionReview) {
	if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = connection.Close()
	}
}

// register has four webhooks asked about ConfigMaps with their label: of both kinds, with both policies.
func (m *moody) register(t *testing.T, c *clients) (labels map[string]admissionregistrationv1.FailurePolicyType) {
	t.Helper()
	labels = map[string]admissionregistrationv1.FailurePolicyType{}
	rules := []admissionregistrationv1.RuleWithOperations{admissiontest.Rule("", "v1", "configmaps")}
	config := admissionregistrationv1.WebhookClientConfig{URL: ptr.To(m.server.URL), CABundle: m.authority}
	for _, policy := range []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail, admissionregistrationv1.Ignore} {
		label := func(kind string) (string, *metav1.LabelSelector) {
			name := kind + "-" + strings.ToLower(string(policy))
			labels[name] = policy
			return name, &metav1.LabelSelector{MatchLabels: map[string]string{name: "yes"}}
		}
		name, selector := label("mutating")
		admissiontest.Mutate(t, c.kubernetes, name, admissionregistrationv1.MutatingWebhook{
			ClientConfig: config, Rules: rules, ObjectSelector: selector, FailurePolicy: &policy, TimeoutSeconds: ptr.To[int32](1),
		})
		name, selector = label("validating")
		admissiontest.Validate(t, c.kubernetes, name, admissionregistrationv1.ValidatingWebhook{
			ClientConfig: config, Rules: rules, ObjectSelector: selector, FailurePolicy: &policy, TimeoutSeconds: ptr.To[int32](1),
		})
	}
	return labels
}

// brokenWebhooks breaks webhooks in ways that depend on no configuration, and has them work again without one.
func brokenWebhooks(t *testing.T, a *annex) {
	c, m := a.clients, startMoody(t)
	labels := m.register(t, c)
	good := m.certificate.Load()
	if err := c.configMap(t, "webhooks-before"); err != nil {
		t.Fatal(err)
	}
	recovered := func(round string) {
		t.Helper()
		m.certificate.Store(good)
		m.say(allow)
		for label := range labels {
			framework.Eventually(t, patience, func() error { return c.configMap(t, fmt.Sprintf("%s-%s", round, label), label) })
		}
	}
	m.say(fail)
	for label, policy := range labels {
		if policy == admissionregistrationv1.Fail {
			framework.Eventually(t, patience, func() error {
				return notRefused(c.configMap(t, "not-yet-"+label, label), http.StatusInternalServerError)
			})
		}
	}
	recovered("at-first")
	for name, tc := range map[string]struct {
		broken func()
		// want is in the refusals; validating is, where that is something else with validating webhooks.
		want, validating string
		// despite is refused although its policy is Ignore.
		despite string
	}{
		"authority": {broken: func() { m.show(t, "127.0.0.1") }, want: "certificate signed by unknown authority"},
		"name":      {broken: func() { m.show(t, "127.0.0.2") }, want: "certificate is valid for 127.0.0.2, not 127.0.0.1"},
		"hangs": {broken: func() {
			m.say(func(_ http.ResponseWriter, r *http.Request, _ *admissionv1.AdmissionReview) { <-r.Context().Done() })
		}, want: "context deadline exceeded"},
		"panics": {broken: func() {
			m.say(hangUp)
		}, want: "EOF"},
		"fails": {broken: func() {
			m.say(func(w http.ResponseWriter, _ *http.Request, _ *admissionv1.AdmissionReview) {
				w.WriteHeader(http.StatusInternalServerError)
			})
		}, want: "an error on the server"},
		"garbage": {broken: func() {
			m.say(func(w http.ResponseWriter, _ *http.Request, _ *admissionv1.AdmissionReview) {
				_, _ = w.Write([]byte("<html>"))
			})
		}, want: "couldn't get version/kind"},
		"another-uid": {broken: func() {
			m.say(func(w http.ResponseWriter, _ *http.Request, review *admissionv1.AdmissionReview) {
				review.Request.UID = "other"
				allow(w, nil, review)
			})
		}, want: "expected response.uid="},
		"patch": {despite: "mutating-ignore", validating: "validating webhook may not return response.patch", broken: func() {
			m.say(func(w http.ResponseWriter, _ *http.Request, review *admissionv1.AdmissionReview) {
				patch := []byte(`[{"op":"remove","path":"/data/missing"}]`)
				respond(w, review, admissionv1.AdmissionResponse{Allowed: true, Patch: patch, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch)})
			})
		}, want: "Unable to remove nonexistent key: missing"},
	} {
		tc.broken()
		var asking sync.WaitGroup
		for label, policy := range labels {
			asking.Go(func() {
				err := c.configMap(t, fmt.Sprintf("%s-%s", name, label), label)
				want := tc.want
				if tc.validating != "" && strings.HasPrefix(label, "validating") {
					want = tc.validating
				}
				// As in Kubernetes, failurePolicy is about calls, and not about what comes of a patch.
				if policy == admissionregistrationv1.Ignore && label != tc.despite {
					if err != nil {
						t.Errorf("%s, %s: %v", name, label, err)
					}
					return
				}
				refused(t, name+", "+label, err, http.StatusInternalServerError, want)
			})
		}
		// Others go on meanwhile, also with one that hangs.
		if err := c.configMap(t, "webhooks-"+name); err != nil {
			t.Errorf("%s: a ConfigMap that no webhook is asked about: %v", name, err)
		}
		c.mustHave(t, "webhooks-before")
		asking.Wait()
		recovered("after-" + name)
		c.mustHave(t, "webhooks-before", "webhooks-"+name, name+"-validating-ignore", "at-first-validating-fail")
		c.want(t, fmt.Sprintf("/api/v1/namespaces/default/configmaps/%s-mutating-fail", name), http.StatusNotFound)
	}
}
