// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/test/framework"
)

// TestFlagsOfAGenericServerAct sets flags that every generic apiserver has, and looks at what each of them does.
func TestFlagsOfAGenericServerAct(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spans, reviews := startCollector(t), startAuthorizer(t)
	tracing, webhook := filepath.Join(dir, "tracing.yaml"), filepath.Join(dir, "authorizer.kubeconfig")
	for file, content := range map[string]string{
		tracing: "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1000000\nendpoint: " + spans.address + "\n",
		webhook: kubeconfigOf(t, reviews),
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := startHost(t, func(o *controlplane.Options) {
		var sections cliflag.NamedFlagSets
		o.AddFlags(&sections)
		flags := pflag.NewFlagSet("controlplane", pflag.ContinueOnError)
		for _, section := range sections.FlagSets {
			flags.AddFlagSet(section)
		}
		if err := flags.Parse([]string{
			"--request-timeout=10s", "--min-request-timeout=1", "--goaway-chance=0.02", "--external-hostname=annex.example.com",
			`--cors-allowed-origins=//web\.example\.com$`, "--strict-transport-security-directives=max-age=31536000,includeSubDomains",
			"--shutdown-send-retry-after", "--tracing-config-file=" + tracing, "--authorization-webhook-config-file=" + webhook,
			"--requestheader-username-headers=X-Caller", "--disable-admission-plugins=NamespaceLifecycle",
		}); err != nil {
			t.Fatal(err)
		}
	})
	admin := must[*http.Client](t)(rest.HTTPClientFor(h.Admin()))
	hanging, release := make(chan struct{}, 2), make(chan struct{})
	hang := admissiontest.Serve(t, func(_ http.ResponseWriter, r *http.Request, _ *admissionv1.AdmissionReview) {
		hanging <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	admissiontest.Validate(t, core(t, h.Admin()), "hang", admissionregistrationv1.ValidatingWebhook{
		Name: "hang.example.com", ClientConfig: hang.ByURL("/"), Rules: []admissionregistrationv1.RuleWithOperations{admissiontest.Rule("", "v1", "secrets")},
		TimeoutSeconds: ptr.To[int32](30),
	})
	slow := make(chan error, 2)
	begin := func() {
		eventually(t, func() error { // the configuration takes effect a moment after it was made
			go func() {
				_, err := core(t, h.Admin()).CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "slow-"}}, metav1.CreateOptions{})
				slow <- err
			}()
			select {
			case <-hanging:
				return nil
			case err := <-slow:
				return fmt.Errorf("a request did not hang: %w", err)
			}
		})
	}
	began := time.Now()
	begin()
	checkHeaders(t, h, admin)
	checkGoaway(t, h, admin)
	checkWatchEnds(t, h, admin)
	checkAuthorizer(t, h)
	checkProxyHeader(t, h)
	if _, err := core(t, h.Admin()).CoreV1().ConfigMaps("nowhere").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("--disable-admission-plugins=NamespaceLifecycle: in a namespace that does not exist: %v", err)
	}
	// The library answers with 504, or not at all where it is about to answer just then.
	if err := <-slow; err == nil || time.Since(began) < 10*time.Second {
		t.Errorf("--request-timeout: a request that hangs ended after %s with %v, want an error after 10s", time.Since(began), err)
	}
	begin()
	h.BeginStop()
	checkRetryAfter(t, h, admin)
	close(release)
	h.Stop()
	if !spans.have("/api/v1/namespaces/{:namespace}/secrets") || !spans.have("annex-controlplane-") {
		t.Error("--tracing-config-file: the collector has no spans of requests of this server")
	}
}

// get asks the server, and returns the answer and its body.
func get(t *testing.T, h *host, client *http.Client, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	request := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+path, nil))
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response := must[*http.Response](t)(client.Do(request))
	defer response.Body.Close()
	return response, string(must[[]byte](t)(io.ReadAll(response.Body)))
}

func checkHeaders(t *testing.T, h *host, client *http.Client) {
	t.Helper()
	for origin, want := range map[string]string{"https://web.example.com": "https://web.example.com", "https://web.example.com.evil.net": ""} {
		if response, _ := get(t, h, client, "/version", "Origin", origin); response.Header.Get("Access-Control-Allow-Origin") != want {
			t.Errorf("--cors-allowed-origins: %s is answered with %q, want %q", origin, response.Header.Get("Access-Control-Allow-Origin"), want)
		}
	}
	response, body := get(t, h, client, "/api")
	if got, want := response.Header.Get("Strict-Transport-Security"), "max-age=31536000; includeSubDomains"; got != want {
		t.Errorf("--strict-transport-security-directives: got %q, want %q", got, want)
	}
	if !strings.Contains(body, `"serverAddress":"annex.example.com:`) {
		t.Errorf("--external-hostname: clients are told to find the server at %s", body)
	}
}

// checkGoaway sends requests until the server has asked for a new connection.
func checkGoaway(t *testing.T, h *host, client *http.Client) {
	t.Helper()
	fresh := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			fresh++
		}
	}})
	for range 2000 {
		request := must[*http.Request](t)(http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/livez", nil))
		response := must[*http.Response](t)(client.Do(request))
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if fresh > 1 {
			return
		}
	}
	t.Error("--goaway-chance: 2000 requests went over one connection")
}

func checkWatchEnds(t *testing.T, h *host, client *http.Client) {
	t.Helper()
	began := time.Now()
	get(t, h, client, "/api/v1/configmaps?watch=1")
	if took := time.Since(began); took < time.Second {
		t.Errorf("--min-request-timeout: a watch ended after %s, want one to two seconds", took)
	}
}

// checkAuthorizer has jane, for whom there are no roles, do what the webhook allows.
func checkAuthorizer(t *testing.T, h *host) {
	t.Helper()
	jane := core(t, h.As("jane")).CoreV1()
	if _, err := jane.ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("--authorization-webhook-config-file: what it allows: %v", err)
	}
	if _, err := jane.ConfigMaps("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "not on my watch") {
		t.Errorf("--authorization-webhook-config-file: what it does not allow: got %v, want 403 with its reason", err)
	}
}

// checkProxyHeader names a user in the header that the server was told of, and looks at which ones it tells extension servers of.
func checkProxyHeader(t *testing.T, h *host) {
	t.Helper()
	proxy := must[*http.Client](t)(rest.HTTPClientFor(h.With(h.Proxy)))
	if response, body := get(t, h, proxy, "/api/v1/namespaces/default/configmaps", "X-Caller", "jane"); response.StatusCode != http.StatusOK {
		t.Errorf("--requestheader-username-headers: jane, named by a proxy, is answered with %d: %s", response.StatusCode, body)
	}
	eventually(t, func() error {
		trust, err := core(t, h.Admin()).CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if err == nil && trust.Data["requestheader-username-headers"] != `["X-Caller","X-Remote-User"]` {
			err = fmt.Errorf("extension servers are told of %s", trust.Data["requestheader-username-headers"])
		}
		return err
	})
}

// checkRetryAfter asks a server that stops, and still has a request to answer.
func checkRetryAfter(t *testing.T, h *host, client *http.Client) {
	t.Helper()
	eventually(t, func() error {
		response, body := get(t, h, client, "/version")
		if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
			return fmt.Errorf("--shutdown-send-retry-after: got status %d: %s", response.StatusCode, body)
		}
		return nil
	})
}

// startAuthorizer starts a webhook that lets jane read the namespace default.
func startAuthorizer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		resource := review.Spec.ResourceAttributes
		review.Status.Allowed = review.Spec.User == "jane" && resource != nil && resource.Namespace == "default" && resource.Verb == "list"
		review.Status.Reason = "not on my watch"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	return server
}

func kubeconfigOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: '" + server.URL + "', certificate-authority: '" + authority + "'}}]\n" +
		"users: [{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
}

// collector receives spans as they are on the wire.
type collector struct {
	address string
	mu      sync.Mutex
	spans   strings.Builder
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	listener := framework.Listen(t)
	c := &collector{address: listener.Addr().String()}
	server := grpc.NewServer(grpc.ForceServerCodec(wire{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.spans.Write(message)
		return stream.SendMsg(&[]byte{})
	}))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return c
}

func (c *collector) have(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(c.spans.String(), text)
}

// wire leaves messages as they are.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

func (wire) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte{}, data...)
	return nil
}
