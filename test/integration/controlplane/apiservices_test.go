// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/controlplane"
)

// remote is the least that can stand behind an APIService. It tells what reaches it.
type remote struct {
	*httptest.Server
	away atomic.Bool
	// watching and watched are closed when a watch begins and ends.
	watching, watched chan struct{}
}

func startRemote(t *testing.T, h *host) *remote {
	t.Helper()
	r := &remote{watching: make(chan struct{}), watched: make(chan struct{})}
	r.Server = httptest.NewUnstartedServer(r)
	pair, err := h.Serving.Serving("remote", "remote.default.svc", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	proxies := x509.NewCertPool()
	proxyCA, err := os.ReadFile(h.FrontProxy.CertFile())
	if err != nil || !proxies.AppendCertsFromPEM(proxyCA) {
		t.Fatal("no front proxy authority", err)
	}
	r.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: proxies, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func (r *remote) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if r.away.Load() {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case request.URL.Query().Has("watch"):
		w.(http.Flusher).Flush()
		close(r.watching)
		<-request.Context().Done()
		close(r.watched)
	case strings.HasSuffix(request.URL.Path, "/echo"):
		_ = json.NewEncoder(w).Encode(map[string][]string{
			"certificate": {request.TLS.PeerCertificates[0].Subject.CommonName},
			"user":        request.Header.Values("X-Remote-User"),
			"groups":      request.Header.Values("X-Remote-Group"),
		})
	case request.URL.Path == "/apis/remote.example.com/v1":
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "remote.example.com/v1",
			APIResources: []metav1.APIResource{{Name: "things", SingularName: "thing", Kind: "Thing", Verbs: metav1.Verbs{"get"}}},
		})
	default:
		http.NotFound(w, request)
	}
}

// toRemote resolves every service to the remote server.
type toRemote struct{ server atomic.Pointer[remote] }

func (r *toRemote) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	server := r.server.Load()
	if server == nil {
		return nil, fmt.Errorf("no service %s/%s:%d", namespace, name, port)
	}
	return url.Parse(server.URL)
}

func TestRemoteAPIService(t *testing.T) {
	t.Parallel()
	resolver := &toRemote{}
	h := startHost(t, func(o *controlplane.Options) { o.ServiceResolver = resolver })
	apiServices := services(t, h.Admin()).ApiregistrationV1().APIServices()
	ca, err := os.ReadFile(h.Serving.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	const name = "v1.remote.example.com"
	_, err = apiServices.Create(t.Context(), &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "remote.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10, CABundle: ca,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "remote", Port: ptr.To[int32](443)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitFor := func(status apiregistrationv1.ConditionStatus, reason, message string) {
		t.Helper()
		eventually(t, func() error {
			service, err := apiServices.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			condition := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available)
			if condition == nil || condition.Status != status || condition.Reason != reason || !strings.Contains(condition.Message, message) {
				return fmt.Errorf("condition is %+v, want %s %s with %q", condition, status, reason, message)
			}
			return nil
		})
	}
	waitFor("False", "FailedDiscoveryCheck", "no service default/remote:443")

	server := startRemote(t, h)
	resolver.server.Store(server)
	waitFor("True", "Passed", "all checks passed")

	eventually(t, func() error {
		_, lists, err := core(t, h.Admin()).Discovery().ServerGroupsAndResources()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(lists, func(list *metav1.APIResourceList) bool {
			return list.GroupVersion == "remote.example.com/v1" && len(list.APIResources) == 1
		}) {
			return fmt.Errorf("the remote kinds are not in discovery")
		}
		return nil
	})
	// Whoever calls, and whatever he claims to be, the remote server learns who he is from the host.
	status, body := send(t, h.As("carol", "system:masters", "team"), http.MethodGet, h.URL+"/apis/remote.example.com/v1/echo", "",
		map[string]string{"X-Remote-User": "root", "X-Remote-Group": "system:masters"})
	if status != http.StatusOK {
		t.Fatalf("got %d %s", status, body)
	}
	var got map[string][]string
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"certificate": {"annex-aggregator"}, "user": {"carol"}, "groups": {"system:authenticated", "system:masters", "team"}}
	slices.Sort(got["groups"])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what reached the remote server (-want,+got):\n%s", diff)
	}

	server.away.Store(true)
	touch(t, h, name)
	waitFor("False", "FailedDiscoveryCheck", "bad status")
	if status, _ := send(t, h.Admin(), http.MethodGet, h.URL+"/apis/remote.example.com/v1/echo", "", nil); status != http.StatusServiceUnavailable {
		t.Errorf("a server that is away: got %d, want 503", status)
	}
	server.away.Store(false)
	touch(t, h, name)
	waitFor("True", "Passed", "all checks passed")

	wantWatchEndsWithHost(t, h, server)
}

// wantWatchEndsWithHost makes sure that the host does not leave to the remote server when its stop is over.
func wantWatchEndsWithHost(t *testing.T, h *host, server *remote) {
	t.Helper()
	things := schema.GroupVersionResource{Group: "remote.example.com", Version: "v1", Resource: "things"}
	watch, err := anything(t, h.Admin()).Resource(things).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	<-server.watching
	h.Stop()
	select {
	case <-server.watched:
	case <-time.After(time.Second):
		t.Error("the host has stopped, and a watch through it goes on")
	}
}

// touch is how a server says that it should be looked at.
func touch(t *testing.T, h *host, name string) {
	t.Helper()
	apiServices := services(t, h.Admin()).ApiregistrationV1().APIServices()
	eventually(t, func() error {
		service, err := apiServices.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&service.ObjectMeta, "example.com/touched", service.ResourceVersion)
		_, err = apiServices.Update(t.Context(), service, metav1.UpdateOptions{})
		return err
	})
}

func TestBuiltInAPIServices(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	list, err := services(t, h.Admin()).ApiregistrationV1().APIServices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for i := range list.Items {
		got[list.Items[i].Name] = helper.IsAPIServiceConditionTrue(&list.Items[i], apiregistrationv1.Available)
	}
	want := map[string]bool{}
	for _, group := range []string{
		"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io",
		"coordination.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io", "rbac.authorization.k8s.io", "storagemigration.k8s.io",
	} {
		want["v1."+group] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("APIServices once ready (-want,+got):\n%s", diff)
	}
}
