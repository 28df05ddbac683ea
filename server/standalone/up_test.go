// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/certificates/pki"
)

func TestTheExtensionIsBehindRemoteAPIServices(t *testing.T) {
	t.Parallel()
	running := run(t, t.TempDir())
	client, err := clientset.NewForConfig(running.server.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	type summary struct {
		Service             string
		Group, Version      int32
		Verified, Available bool
	}
	want := map[string]summary{
		"v1alpha1.features.k8s.io":     {"annex-system/annex-apiserver:443", 900, 15, true, true},
		"v1alpha1.multicluster.k8s.io": {"annex-system/annex-apiserver:443", 900, 15, true, true},
		"v1alpha1.node.k8s.io":         {"annex-system/annex-apiserver:443", 16300, 1, true, true},
	}
	got := map[string]summary{}
	list, err := client.ApiregistrationV1().APIServices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range list.Items {
		if reference := service.Spec.Service; reference != nil {
			got[service.Name] = summary{
				Service:   reference.Namespace + "/" + reference.Name + ":" + portOf(reference),
				Group:     service.Spec.GroupPriorityMinimum,
				Version:   service.Spec.VersionPriority,
				Verified:  len(service.Spec.CABundle) > 0 && !service.Spec.InsecureSkipTLSVerify,
				Available: available(&service) == nil,
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("remote APIServices (-want,+got):\n%s", diff)
	}
}

func TestASecondStartKeepsTheData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := run(t, dir)
	createClaim(t, first.server.AdminConfig(), "region.example.com")
	admin := first.server.AdminConfig()
	first.stop(t)

	second := run(t, dir)
	claims := claimsOf(t, second.server.AdminConfig())
	if diff := cmp.Diff([]string{"region.example.com"}, claims); diff != "" {
		t.Errorf("claims after the second start (-want,+got):\n%s", diff)
	}
	// The credentials of the first start stay good, apart from the port.
	admin.Host = second.server.AdminConfig().Host
	if diff := cmp.Diff(claims, claimsOf(t, admin)); diff != "" {
		t.Errorf("claims as the administrator of the first start (-want,+got):\n%s", diff)
	}
}

func TestTwoInOneProcessShareNothing(t *testing.T) {
	t.Parallel()
	servers := []*running{begin(t, t.TempDir()), begin(t, t.TempDir())}
	for _, server := range servers {
		server.waitReady(t)
	}
	createClaim(t, servers[0].server.AdminConfig(), "region.example.com")
	if claims := claimsOf(t, servers[1].server.AdminConfig()); len(claims) != 0 {
		t.Errorf("the second server has %v, which was created in the first", claims)
	}
	foreign := servers[0].server.AdminConfig()
	foreign.Host = servers[1].server.AdminConfig().Host
	foreign.CAData = servers[1].server.AdminConfig().CAData
	client, err := versioned.NewForConfig(foreign)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.MulticlusterV1alpha1().ClusterClaims().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("the first server's administrator gets %v from the second, want Unauthorized", err)
	}
	servers[0].stop(t)
	createClaim(t, servers[1].server.AdminConfig(), "region.example.com")
}

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	running := run(t, t.TempDir())
	extension := running.server.options.Extension.Serving.Listener.Addr().String()
	directory, err := pki.Open(filepath.Join(running.dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	clientCA, err := directory.Authority("client-ca", "")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := clientCA.Client("someone", "someone")
	if err != nil {
		t.Fatal(err)
	}
	someone := rest.AnonymousClientConfig(running.server.AdminConfig())
	someone.CertFile, someone.KeyFile = pair.CertFile, pair.KeyFile

	const claims = "/apis/multicluster.k8s.io/v1alpha1/clusterclaims"
	host := strings.TrimPrefix(running.server.AdminConfig().Host, "https://")
	forged := http.Header{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}}
	for name, tc := range map[string]struct {
		as      *rest.Config
		address string
		headers http.Header
		want    int
	}{
		"administrator through the host":         {as: running.server.AdminConfig(), address: host, want: http.StatusOK},
		"administrator at the extension":         {as: running.server.AdminConfig(), address: extension, want: http.StatusOK},
		"someone through the host":               {as: someone, address: host, want: http.StatusForbidden},
		"someone at the extension":               {as: someone, address: extension, want: http.StatusForbidden},
		"nobody through the host":                {address: host, want: http.StatusUnauthorized},
		"nobody at the extension":                {address: extension, want: http.StatusUnauthorized},
		"forged headers at the extension":        {address: extension, headers: forged, want: http.StatusUnauthorized},
		"forged headers of someone":              {as: someone, address: extension, headers: forged, want: http.StatusForbidden},
		"forged headers of someone, by the host": {as: someone, address: host, headers: forged, want: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+tc.address+claims, nil)
			if err != nil {
				t.Fatal(err)
			}
			for key, values := range tc.headers {
				request.Header[key] = values
			}
			response, err := httpClient(t, tc.as).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			if err := response.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != tc.want {
				t.Errorf("status is %d, want %d", response.StatusCode, tc.want)
			}
		})
	}
}

func TestFilesForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	running := run(t, t.TempDir())
	for path, want := range map[string]os.FileMode{
		running.server.Kubeconfig():                                 0o600,
		filepath.Join(running.dir, "pki"):                           0o700,
		filepath.Join(running.dir, "pki", "client-ca.key"):          0o600,
		filepath.Join(running.dir, "pki", "extension.kubeconfig"):   0o600,
		filepath.Join(running.dir, "pki", "front-proxy-client.key"): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %s is %o, want %o", path, got, want)
		}
	}
}

// TestRequestsUnderWayAreAnswered stops the server while it reads a request that the host passes on.
func TestWatchesEndCleanlyWhenStopped(t *testing.T) {
	t.Parallel()
	server := run(t, t.TempDir())
	ended := map[string]chan error{}
	for _, path := range []string{"/api/v1/configmaps", "/apis/multicluster.k8s.io/v1alpha1/clusterclaims"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.server.AdminConfig().Host+path+"?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := httpClient(t, server.server.AdminConfig()).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		end := make(chan error, 1)
		ended[path] = end
		go func() {
			_, err := io.Copy(io.Discard, response.Body)
			end <- errors.Join(err, response.Body.Close())
		}()
	}
	server.cancel()
	for path, end := range ended {
		select {
		case err := <-end:
			if err != nil {
				t.Errorf("the watch of %s ended with %v, want an orderly end", path, err)
			}
		case <-time.After(patience):
			t.Fatalf("the watch of %s did not end:\n%s", path, server.out.String())
		}
	}
	server.stop(t)
}

func TestRequestsUnderWayAreAnswered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := run(t, dir)
	body, rest := io.Pipe()
	reading := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(reading) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, first.server.AdminConfig().Host+"/apis/multicluster.k8s.io/v1alpha1/clusterclaims", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	// The server says "continue" when it begins to read the body.
	request.Header.Set("Expect", "100-continue")
	client := httpClient(t, first.server.AdminConfig())
	client.Transport.(*http.Transport).ExpectContinueTimeout = patience
	answered := make(chan error, 1)
	go func() {
		response, err := client.Do(request)
		if err == nil {
			// The host turns 201 into 200 here: its timeout filter takes the "continue" for the answer's status.
			if response.StatusCode/100 != 2 {
				err = errors.New(response.Status)
			}
			err = errors.Join(err, response.Body.Close())
		}
		answered <- err
	}()
	await(t, first, "read the request", reading)
	first.cancel()
	first.waitFor(t, "stopping")
	if _, err := io.WriteString(rest, `{"apiVersion":"multicluster.k8s.io/v1alpha1","kind":"ClusterClaim","metadata":{"name":"late.example.com"},"spec":{"value":"a"}}`); err != nil {
		t.Fatal(err)
	}
	if err := rest.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-answered:
		if err != nil {
			t.Errorf("the request under way ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("the request under way was not answered:\n%s", first.out.String())
	}
	first.stop(t)
	if diff := cmp.Diff([]string{"late.example.com"}, claimsOf(t, run(t, dir).server.AdminConfig())); diff != "" {
		t.Errorf("claims after the next start (-want,+got):\n%s", diff)
	}
}

func TestEverythingEndsWithEtcd(t *testing.T) {
	t.Parallel()
	running := run(t, t.TempDir())
	// etcd gives up a data directory that another process could take.
	if err := os.Remove(filepath.Join(running.dir, "lock")); err != nil {
		t.Fatal(err)
	}
	await(t, running, "end", running.ended)
	if running.err == nil || !strings.HasPrefix(running.err.Error(), "etcd: ") || strings.Contains(running.err.Error(), "\n") {
		t.Errorf("server ended with %v, want one line about etcd", running.err)
	}
	running.err = nil // it was meant to
}

func TestStoppedWhileStarting(t *testing.T) {
	t.Parallel()
	running := begin(t, t.TempDir())
	running.stop(t)
}

func TestServicesAreResolvedByName(t *testing.T) {
	t.Parallel()
	resolver := serviceResolver{address: &net.TCPAddr{IP: loopback(), Port: 1234}}
	url, err := resolver.ResolveEndpoint("annex-system", "annex-apiserver", 443)
	if err != nil || url.String() != "https://127.0.0.1:1234" {
		t.Errorf("the extension apiserver is at %v (%v), want https://127.0.0.1:1234", url, err)
	}
	for _, other := range []struct {
		namespace, name string
		port            int32
	}{{"annex-system", "annex-apiserver", 80}, {"default", "annex-apiserver", 443}, {"annex-system", "other", 443}} {
		if url, err := resolver.ResolveEndpoint(other.namespace, other.name, other.port); err == nil {
			t.Errorf("%v is resolved to %s, want an error", other, url)
		}
	}
}
