// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package degraded

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/test/framework"
)

// TestRestartWhileMuchIsBroken has a webhook for everything that is down, a conversion webhook that is gone, dead APIServices, one of
// them in the place of a built-in one, and certificates on disk that have expired, authorities included. The server stops, starts and serves
// reads. Once the webhook is removed, which it cannot prevent, all else goes on by itself.
func TestRestartWhileMuchIsBroken(t *testing.T) {
	t.Parallel()
	a := start(t, nil)
	if err := a.configMap(t, "before"); err != nil {
		t.Fatal(err)
	}
	a.defineWidgets(t)
	down := admissiontest.Start(t, admissiontest.Allow)
	down.Stop()
	tools, _ := convertible(t, a.clients, down)
	a.deadService(t, "v1.dead.example.com")
	a.deadService(t, "v2.coordination.k8s.io")
	replaceCoordination(t, a)
	refuseEverything(t, a, down)

	wantRefusal := func(when string) {
		t.Helper()
		refused(t, when+", writing", a.configMap(t, "during"), http.StatusInternalServerError, "failed calling webhook", "refuses-", "connection refused")
		err := a.kubernetes.CoreV1().ConfigMaps("default").Delete(t.Context(), "before", metav1.DeleteOptions{})
		refused(t, when+", deleting", err, http.StatusInternalServerError, "failed calling webhook", "refuses-", "connection refused")
		a.mustHave(t, "before")
		a.mustHaveObject(t, widgets, "before", 1)
		a.mustHaveObject(t, tools, "before", 1)
		for _, path := range []string{"/livez", "/apis", "/apis/good.example.com/v1", "/openapi/v3", "/openapi/v2"} {
			a.want(t, path, http.StatusOK)
		}
		a.want(t, "/apis/dead.example.com/v1/things", http.StatusServiceUnavailable, "is not available")
	}
	wantRefusal("running")
	a.stop()

	expire(t, a)
	a.begin()
	framework.Eventually(a.t, patience, func() error {
		if said := a.out.String(); !strings.Contains(said, "control plane: waiting for ") || !strings.Contains(said, "local-apiservices") || !strings.Contains(said, "with KUBECONFIG=") {
			return fmt.Errorf("it says\n%s", said)
		}
		return nil
	})
	wantRefusal("started")
	// The extension apiserver is served to those who ask for what is there, and is not ready for more.
	removeRefusals(t, a)
	a.waitReady()
	framework.Eventually(t, patience, func() error { return a.configMap(t, "after") })
	a.mustHave(t, "before", "after")
	a.want(t, "/api/v1/namespaces/default/configmaps/during", http.StatusNotFound)
	a.want(t, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", http.StatusOK)
	wantControllers(t, a, "led-again")
	if err := a.create(t, tools, "Tool", "after", 2); err != nil {
		t.Error(err)
	}

	for _, name := range []string{"v1.dead.example.com", "v2.coordination.k8s.io"} {
		if err := a.services.ApiregistrationV1().APIServices().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	framework.Eventually(t, patience, func() error { return a.check(t, "/apis/dead.example.com/v1/things", http.StatusNotFound) })
}

// deadService registers an APIService that nobody serves, and waits for what is said of it.
func (c *clients) deadService(t *testing.T, name string) {
	t.Helper()
	version, group, _ := strings.Cut(name, ".")
	port := int32(443)
	_, err := c.services.ApiregistrationV1().APIServices().Create(t.Context(), &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: group, Version: version, GroupPriorityMinimum: 20000, VersionPriority: 1000, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "dead", Port: &port},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.waitUnavailable(t, name)
}

func (c *clients) waitUnavailable(t *testing.T, name string) {
	t.Helper()
	framework.Eventually(t, patience, func() error {
		service, err := c.services.ApiregistrationV1().APIServices().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range service.Status.Conditions {
			if condition.Type == apiregistrationv1.Available && condition.Status == apiregistrationv1.ConditionFalse &&
				condition.Reason == "FailedDiscoveryCheck" && strings.Contains(condition.Message, "there is no service default/dead with port 443") {
				return nil
			}
		}
		return fmt.Errorf("%s has conditions %+v", name, service.Status.Conditions)
	})
}

// replaceCoordination has Leases served by nobody, those of the control plane's own controllers included.
func replaceCoordination(t *testing.T, a *annex) {
	t.Helper()
	elsewhere := []byte(`{"spec":{"service":{"namespace":"default","name":"dead","port":443},"insecureSkipTLSVerify":true}}`)
	if _, err := a.services.ApiregistrationV1().APIServices().Patch(t.Context(), "v1.coordination.k8s.io", types.MergePatchType, elsewhere, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		code, body := a.get(t, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
		if code != http.StatusServiceUnavailable {
			return fmt.Errorf("Leases: %d %.200s", code, body)
		}
		return nil
	})
}

// refuseEverything has two webhooks that are down asked about everything, and must not be passed.
func refuseEverything(t *testing.T, a *annex, down *admissiontest.Webhook) {
	t.Helper()
	rules := []admissionregistrationv1.RuleWithOperations{admissiontest.Rule("*", "*", "*/*")}
	rules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}
	admissiontest.Validate(t, a.kubernetes, "refuses-validating", admissionregistrationv1.ValidatingWebhook{ClientConfig: down.ByURL("/"), Rules: rules})
	admissiontest.Mutate(t, a.kubernetes, "refuses-mutating", admissionregistrationv1.MutatingWebhook{ClientConfig: down.ByURL("/"), Rules: rules})
	framework.Eventually(t, patience, func() error {
		return notRefused(a.configMap(t, "not-yet"), http.StatusInternalServerError, "failed calling webhook")
	})
}

func removeRefusals(t *testing.T, a *annex) {
	t.Helper()
	all := a.kubernetes.AdmissionregistrationV1()
	if err := all.ValidatingWebhookConfigurations().Delete(t.Context(), "refuses-validating", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := all.MutatingWebhookConfigurations().Delete(t.Context(), "refuses-mutating", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// wantControllers waits until controllers that lead have done something new.
func wantControllers(t *testing.T, a *annex, namespace string) {
	t.Helper()
	_, err := a.kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		_, err := a.kubernetes.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// expire writes certificates for the keys of all of a server's that have been over for a day, as after a long pause.
func expire(t *testing.T, a *annex) {
	t.Helper()
	authorities := map[string]string{
		"control-plane": "serving-ca", "extension": "serving-ca", "admin": "client-ca", "extension-client": "client-ca",
		"controllers-client": "client-ca", "front-proxy-client": "front-proxy-ca",
	}
	for name, authority := range authorities {
		issuer, key := certificateOf(t, a, authority)
		subject, own := certificateOf(t, a, name)
		rewrite(t, a, name, subject, issuer, own, key)
	}
	for _, authority := range []string{"serving-ca", "client-ca", "front-proxy-ca"} {
		issuer, key := certificateOf(t, a, authority)
		rewrite(t, a, authority, issuer, issuer, key, key)
	}
}

func certificateOf(t *testing.T, a *annex, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	block, _ := pem.Decode(a.read("pki", name+".crt"))
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	block, _ = pem.Decode(a.read("pki", name+".key"))
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

func rewrite(t *testing.T, a *annex, name string, certificate, issuer *x509.Certificate, own, signer *ecdsa.PrivateKey) {
	t.Helper()
	template := *certificate
	template.NotBefore, template.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, &template, issuer, own.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(filepath.Join(a.dir, "pki", name+".crt"), content, 0o600); err != nil {
		t.Fatal(err)
	}
}
