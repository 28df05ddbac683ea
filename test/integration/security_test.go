// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// frontDoor is a server whose extension apiserver is reached directly too.
type frontDoor struct {
	*framework.Server
	// direct is the extension apiserver's own URL.
	direct string
	pki    *pki.Directory
}

func startFrontDoor(t *testing.T, configure ...func(*standalone.Options)) *frontDoor {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &frontDoor{direct: "https://" + listener.Addr().String()}
	f.Server = framework.Start(t, append(configure, func(o *standalone.Options) { o.Extension.Serving.Listener = listener })...)
	if f.pki, err = pki.Open(filepath.Join(f.DataDir(), "pki")); err != nil {
		t.Fatal(err)
	}
	return f
}

// certificate issues a client certificate by one of the server's authorities.
func (f *frontDoor) certificate(t *testing.T, authority, authorityName, commonName string, groups ...string) pki.Pair {
	t.Helper()
	ca, err := f.pki.Authority(authority, authorityName)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Client(fmt.Sprintf("test-%s-%s", authority, strings.ReplaceAll(commonName, ":", "-")), commonName, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func (f *frontDoor) user(t *testing.T, name string, groups ...string) pki.Pair {
	return f.certificate(t, "client-ca", "annex-client-ca", name, groups...)
}

func (f *frontDoor) proxy(t *testing.T, name string) pki.Pair {
	return f.certificate(t, "front-proxy-ca", "annex-front-proxy-ca", name)
}

// client speaks HTTPS with a certificate, or with none if the pair is empty.
func (f *frontDoor) client(t *testing.T, pair pki.Pair) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join(f.DataDir(), "pki", "serving-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	if pair.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

const claimsPath = "/apis/multicluster.k8s.io/v1alpha1/clusterclaims"

func get(t *testing.T, client *http.Client, url string, headers http.Header) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = headers
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

// admin pretends to be an administrator in every way that front proxies know.
func admin(extra ...string) http.Header {
	h := http.Header{
		"X-Remote-User": {"annex-admin"}, "X-Remote-Group": {"system:masters"},
		"X-Remote-Uid": {"1"}, "X-Remote-Extra-Scopes": {"all"},
	}
	for i := 0; i+1 < len(extra); i += 2 {
		h[extra[i]] = append(h[extra[i]], extra[i+1])
	}
	return h
}

func TestFrontProxyHeadersAreBelievedFromTheProxyAlone(t *testing.T) {
	t.Parallel()
	f := startFrontDoor(t)
	identities := map[string]struct {
		pair pki.Pair
		want int
	}{
		"no certificate":                       {pki.Pair{}, http.StatusUnauthorized},
		"a user's certificate":                 {f.user(t, "alice"), http.StatusForbidden},
		"a proxy of another name":              {f.proxy(t, "somebody"), http.StatusUnauthorized},
		"a user with the proxy's name":         {f.user(t, "annex-aggregator"), http.StatusForbidden},
		"the proxy (the headers are honoured)": {f.proxy(t, "annex-aggregator"), http.StatusOK},
	}
	headers := map[string]http.Header{
		"plain":                     admin(),
		"duplicated":                admin("X-Remote-User", "annex-admin", "X-Remote-Group", "system:masters"),
		"in odd case":               {"x-remote-USER": {"annex-admin"}, "x-REMOTE-group": {"system:masters"}},
		"listed in Connection":      admin("Connection", "X-Remote-User, X-Remote-Group"),
		"with impersonation":        admin("Impersonate-User", "annex-admin", "Impersonate-Group", "system:masters"),
		"beside a made-up token":    admin("Authorization", "Bearer made-up"),
		"beside forwarding headers": admin("X-Forwarded-User", "annex-admin", "Forwarded", "for=127.0.0.1"),
	}
	for who, identity := range identities {
		client := f.client(t, identity.pair)
		for how, header := range headers {
			t.Run(who+", "+how, func(t *testing.T) {
				got := get(t, client, f.direct+claimsPath, header)
				switch {
				case identity.want == http.StatusOK:
					// Some of the variants make the proxy's own request invalid; then it is refused, never widened.
					if got != http.StatusOK && got != http.StatusForbidden && got != http.StatusUnauthorized {
						t.Errorf("got %d", got)
					}
				case got != http.StatusUnauthorized && got != http.StatusForbidden:
					t.Errorf("got %d, want %d: the headers were believed", got, identity.want)
				}
			})
		}
		if got := get(t, client, f.direct+claimsPath, admin()); got != identity.want {
			t.Errorf("%s, plain: got %d, want %d", who, got, identity.want)
		}
		// The control plane's own port believes nobody else either.
		if identity.want != http.StatusOK {
			if got := get(t, client, f.Config.Host+claimsPath, admin()); got != http.StatusUnauthorized && got != http.StatusForbidden {
				t.Errorf("%s at the control plane: got %d", who, got)
			}
		}
	}
	t.Run("through the aggregator", func(t *testing.T) {
		for how, header := range headers {
			if got := get(t, f.client(t, f.user(t, "alice")), f.Config.Host+claimsPath, header); got != http.StatusForbidden && got != http.StatusUnauthorized {
				t.Errorf("%s: got %d, want 403", how, got)
			}
		}
	})
}

func TestAnonymousReachesOnlyHealth(t *testing.T) {
	t.Parallel()
	f := startFrontDoor(t)
	client := f.client(t, pki.Pair{})
	for name, base := range map[string]string{"control plane": f.Config.Host, "extension": f.direct} {
		for _, path := range []string{"/healthz", "/livez", "/readyz"} {
			if got := get(t, client, base+path, nil); got != http.StatusOK {
				t.Errorf("%s %s: got %d, want 200", name, path, got)
			}
		}
		for _, path := range []string{"/", "/api", "/apis", claimsPath, "/version", "/metrics", "/openapi/v2", "/openapi/v3", "/debug/pprof/", "/logs", "/livez/../apis", "/readyz/%2e%2e/metrics"} {
			if got := get(t, client, base+path, nil); got == http.StatusOK {
				t.Errorf("%s %s: an anonymous request was answered", name, path)
			}
		}
	}
}

func TestRightsAreNeededThroughBothDoors(t *testing.T) {
	t.Parallel()
	f := startFrontDoor(t)
	client := f.client(t, f.user(t, "alice", "developers"))
	for name, base := range map[string]string{"aggregator": f.Config.Host, "direct": f.direct} {
		if got := get(t, client, base+claimsPath, nil); got != http.StatusForbidden {
			t.Errorf("%s: got %d, want 403", name, got)
		}
	}
}

// switchable gives everyone every right on claims while it is on.
type switchable struct {
	authorizer.Authorizer
	on atomic.Bool
}

func newSwitchable() *switchable {
	s := &switchable{}
	s.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if s.on.Load() && a.GetResource() == "clusterclaims" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	return s
}

func TestRemovedRightsTakeEffectWithinTenSeconds(t *testing.T) {
	t.Parallel()
	rights := newSwitchable()
	rights.on.Store(true)
	f := startFrontDoor(t, func(o *standalone.Options) { o.ControlPlane.Authorizers = append(o.ControlPlane.Authorizers, rights) })
	client := f.client(t, f.user(t, "alice"))
	for name, base := range map[string]string{"aggregator": f.Config.Host, "direct": f.direct} {
		if got := get(t, client, base+claimsPath, nil); got != http.StatusOK {
			t.Fatalf("%s: got %d with rights, want 200", name, got)
		}
	}
	rights.on.Store(false)
	for name, base := range map[string]string{"aggregator": f.Config.Host, "direct": f.direct} {
		poll.Eventually(t, 10*time.Second, name+" is forbidden without rights", func(context.Context) error {
			code := get(t, client, base+claimsPath, nil)
			return poll.Want(code == http.StatusForbidden, code)
		})
	}
}

func TestSizesAndBombs(t *testing.T) {
	t.Parallel()
	f := startFrontDoor(t)
	claims := f.Annex.MulticlusterV1alpha1().ClusterClaims()
	create := func(name, value string) error {
		_, err := claims.Create(t.Context(), &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterClaimSpec{Value: value}}, metav1.CreateOptions{})
		return err
	}
	if err := create("full.example.com", strings.Repeat("é", 65536)); err != nil {
		t.Errorf("131072 bytes: %v", err)
	}
	if err := create("over.example.com", strings.Repeat("é", 65536)+"a"); !apierrors.IsInvalid(err) {
		t.Errorf("131073 bytes: got %v, want 422", err)
	}

	admin := f.client(t, f.certificate(t, "client-ca", "annex-client-ca", "second-admin", "system:masters"))
	post := func(contentType, method, path string, body string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, f.Config.Host+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", contentType)
		began := time.Now()
		response, err := admin.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s %s took %s", method, path, took)
		}
		return response.StatusCode
	}
	annotated := func(name string, size int) string {
		return fmt.Sprintf(`{"apiVersion":"multicluster.k8s.io/v1alpha1","kind":"ClusterClaim","metadata":{"name":%q,"annotations":{"a":%q}},"spec":{"value":"x"}}`, name, strings.Repeat("a", size))
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'l'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	operations := "[" + strings.Repeat(`{"op":"test","path":"/kind","value":"ClusterClaim"},`, 10000) + `{"op":"test","path":"/kind","value":"ClusterClaim"}]`
	for name, tc := range map[string]struct {
		got  func() int
		want int
	}{
		"a body over 3 MiB": {func() int { return post("application/json", "POST", claimsPath, annotated("big.example.com", 3<<20)) }, http.StatusRequestEntityTooLarge},
		"2 MiB of annotations": {func() int {
			return post("application/json", "POST", claimsPath, annotated("annotated.example.com", 2<<20))
		}, http.StatusUnprocessableEntity},
		"a YAML bomb": {func() int { return post("application/yaml", "POST", claimsPath, bomb) }, 0},
		"10,000 levels of JSON": {func() int {
			return post("application/json", "POST", claimsPath, `{"spec":`+strings.Repeat(`{"a":`, 10001)+"1"+strings.Repeat("}", 10002))
		}, 0},
		"10,000 levels of YAML": {func() int {
			return post("application/yaml", "POST", claimsPath, strings.Repeat("[", 10001)+strings.Repeat("]", 10001))
		}, 0},
		"a patch of 10,001 operations": {func() int {
			return post("application/json-patch+json", "PATCH", claimsPath+"/full.example.com", operations)
		}, http.StatusRequestEntityTooLarge},
	} {
		got := tc.got()
		if tc.want != 0 && got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
		if got < 400 || got >= 500 {
			t.Errorf("%s: got %d, want a 4xx", name, got)
		}
	}
	if got, err := claims.Patch(t.Context(), "full.example.com", types.MergePatchType, []byte(`{"metadata":{"labels":{"still":"alive"}}}`), metav1.PatchOptions{}); err != nil || got.Labels["still"] != "alive" {
		t.Errorf("after all that: %v", err)
	}
}

func TestDataDirectoryIsClosed(t *testing.T) {
	t.Parallel()
	f := startFrontDoor(t)
	err := filepath.WalkDir(f.DataDir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm()
		switch {
		case path == f.DataDir() && mode != 0o700:
			t.Errorf("the data directory has mode %o, want 700", mode)
		case entry.IsDir() && mode&0o077 != 0:
			t.Errorf("%s has mode %o", path, mode)
		case (strings.HasSuffix(path, ".key") || strings.Contains(path, "kubeconfig")) && mode != 0o600:
			t.Errorf("%s has mode %o, want 600", path, mode)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAnotherUserCannotReachTheStore tries as another uid, which only root can; everybody else is held to the file modes above.
func TestAnotherUserCannotReachTheStore(t *testing.T) {
	t.Parallel()
	f := startFrontDoor(t)
	// The folder that the testing package made around it is closed too, and would hide what is tested here.
	if err := os.Chmod(filepath.Dir(f.DataDir()), 0o755); err != nil {
		t.Fatal(err)
	}
	attempts := map[string]string{
		"listing the data directory": "ls " + f.DataDir(),
		"reading the kubeconfig":     "cat " + f.Kubeconfig,
		"reading the database":       "cat " + filepath.Join(f.DataDir(), "etcd", "data", "member", "snap", "db"),
		"finding the socket":         "ls " + filepath.Join(f.DataDir(), "etcd"),
	}
	for name, script := range attempts {
		command := exec.CommandContext(t.Context(), "sh", "-c", script)
		if os.Geteuid() == 0 {
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		} else {
			command.Args[2] = "exit 1 # only root can become another user"
		}
		if out, err := command.CombinedOutput(); err == nil {
			t.Errorf("%s as another user succeeded: %s", name, out)
		}
	}
}
