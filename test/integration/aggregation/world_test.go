// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
)

// patience is how long anything may take on a machine that has much else to do.
const patience = 60 * time.Second

// services knows where services are, as code that embeds a control plane would.
type services struct {
	mu sync.Mutex
	at map[string]string
}

func (s *services) set(name, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[string]string{}
	}
	s.at[name] = address
}

// ResolveEndpoint finds services by their names alone.
func (s *services) ResolveEndpoint(in, name string, port int32) (*url.URL, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	address, ok := s.at[name]
	if !ok || address == "" {
		return nil, fmt.Errorf("there is no service %s/%s with port %d", in, name, port)
	}
	return &url.URL{Scheme: "https", Host: address}, nil
}

// world is a control plane that knows services.
type world struct {
	*framework.Server
	services *services
}

func startWorld(t *testing.T) *world {
	t.Helper()
	w := &world{services: &services{}}
	w.Server = framework.Start(t, func(o *standalone.Options) { o.ControlPlane.ServiceResolver = w.services })
	return w
}

func (w *world) apiServices(t *testing.T) aggregatorclient.APIServiceInterface {
	t.Helper()
	client, err := aggregatorclient.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	return client.APIServices()
}

// register puts a service behind v1 of a group.
func (w *world) register(t *testing.T, group string, service apiregistrationv1.ServiceReference, ca []byte) string {
	t.Helper()
	name := "v1." + group
	_, err := w.apiServices(t).Create(t.Context(), &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: group, Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 10, CABundle: ca, Service: &service,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// start runs a backend and registers it.
func (w *world) start(t *testing.T, name string, ca *pki.Authority) *backend {
	t.Helper()
	b := startBackend(t, w.services, name, ca)
	w.register(t, b.group(), apiregistrationv1.ServiceReference{Namespace: namespace, Name: b.name}, ca.CertPEM())
	return b
}

// touch is how a server says that it should be looked at.
func (w *world) touch(t *testing.T, name string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/touched":%q}}}`, time.Now().Format(time.RFC3339Nano))
	if _, err := w.apiServices(t).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// wantAvailable waits for the condition, with words that its message has, and returns how long that took.
func (w *world) wantAvailable(t *testing.T, name string, status apiregistrationv1.ConditionStatus, message string) time.Duration {
	t.Helper()
	began := time.Now()
	framework.Eventually(t, patience, func() error {
		service, err := w.apiServices(t).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		condition := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available)
		if condition == nil || condition.Status != status || !strings.Contains(condition.Message, message) {
			return fmt.Errorf("Available is %+v, want %s with %q", condition, status, message)
		}
		return nil
	})
	return time.Since(began)
}

// answer is what came back for a request.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// get asks the server for a path on a connection of the client's own.
func get(t *testing.T, config *rest.Config, path string, headers ...string) answer {
	t.Helper()
	got, err := tryGet(t, config, path, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func tryGet(t *testing.T, config *rest.Config, path string, headers ...string) (answer, error) {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		return answer{}, err
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(config.Host, "/")+path, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	began := time.Now()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: string(body), took: time.Since(began)}, err
}

// wantGone waits until nothing is served under a path.
func wantGone(t *testing.T, w *world, path string) {
	t.Helper()
	framework.Eventually(t, patience, func() error {
		if got := get(t, w.Config, path); got.status != http.StatusNotFound {
			return fmt.Errorf("%s: got %d, want 404", path, got.status)
		}
		return nil
	})
}

func has(content, part string) error {
	if !strings.Contains(content, part) {
		return fmt.Errorf("%q is not in %.200s…", part, content)
	}
	return nil
}

func lacks(content, part string) error {
	if strings.Contains(content, part) {
		return fmt.Errorf("%q is still in it", part)
	}
	return nil
}
