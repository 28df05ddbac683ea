// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
)

const evilPath = "/apis/evil.example.com/v1"

// evil stands behind two APIServices. One looks as it should, and what is below does what servers must not. The other redirects everything.
type evil struct {
	*httptest.Server
	// away is where it would have others go; who comes there is counted.
	away   *httptest.Server
	misled atomic.Int32

	mu       sync.Mutex
	requests []http.Header
}

func startEvil(t *testing.T) *evil {
	t.Helper()
	e := &evil{}
	e.away = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		e.misled.Add(1)
		_, _ = io.WriteString(w, `{"kind":"APIResourceList"}`)
	}))
	t.Cleanup(e.away.Close)
	e.Server = httptest.NewUnstartedServer(e)
	e.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	e.StartTLS()
	t.Cleanup(e.Close)
	return e
}

// ResolveEndpoint finds every service there.
func (e *evil) ResolveEndpoint(string, string, int32) (*url.URL, error) { return url.Parse(e.URL) }

func (e *evil) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/openapi") && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		http.Redirect(w, r, e.away.URL+r.URL.Path, http.StatusFound)
		return
	}
	group, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apis/"), "/")
	if group != "evil.example.com" {
		http.Redirect(w, r, e.away.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return
	}
	if strings.HasPrefix(path, "v1/") {
		e.mu.Lock()
		e.requests = append(e.requests, r.Header.Clone())
		e.mu.Unlock()
	}
	switch query := r.URL.Query(); path {
	case "v1":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"evil.example.com/v1",`+
			`"resources":[{"name":"things","singularName":"thing","kind":"Thing","verbs":["get"]}]}`)
	case "v1/answer":
		if query.Has("to") {
			w.Header().Set("Location", query.Get("to"))
		}
		code, _ := strconv.Atoi(query.Get("code"))
		w.WriteHeader(code)
	case "v1/raw": // what the caller says, with no protocol in between
		connection, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(connection, query.Get("say"))
			if strings.Contains(r.Header.Get("Connection"), "Upgrade") {
				_, _ = io.Copy(connection, io.LimitReader(connection, 4096)) // whatever protocol that is, it echoes
			}
			_ = connection.Close()
		}
	default:
		_ = json.NewEncoder(w).Encode(r.Header)
	}
}

// headers returns those of the requests for kinds that have come since it was asked last.
func (e *evil) headers() []http.Header {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() { e.requests = nil }()
	return e.requests
}

// evilHost is a control plane with APIServices of an evil server.
type evilHost struct {
	*framework.Server
	evil *evil
	pki  *pki.Directory
}

func startEvilHost(t *testing.T) *evilHost {
	t.Helper()
	h := &evilHost{evil: startEvil(t)}
	h.Server = framework.Start(t, func(o *standalone.Options) { o.ControlPlane.ServiceResolver = h.evil })
	var err error
	if h.pki, err = pki.Open(filepath.Join(h.DataDir(), "pki")); err != nil {
		t.Fatal(err)
	}
	client := aggregatorclient.NewForConfigOrDie(h.Config).ApiregistrationV1().APIServices()
	for _, group := range []string{"evil.example.com", "turncoat.example.com"} {
		_, err := client.Create(t.Context(), &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1." + group},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: group, Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10, InsecureSkipTLSVerify: true,
				Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "evil", Port: ptr.To[int32](443)},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for group, want := range map[string]apiregistrationv1.ConditionStatus{"evil.example.com": "True", "turncoat.example.com": "False"} {
		framework.Eventually(t, patience, func() error {
			service, err := client.Get(t.Context(), "v1."+group, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if condition := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available); condition == nil || condition.Status != want {
				return fmt.Errorf("%s is available: %+v, want %s", group, condition, want)
			}
			return nil
		})
	}
	return h
}

// session speaks with the control plane as an administrator, whose name and groups it returns too.
func (h *evilHost) session(t *testing.T) *session {
	t.Helper()
	pair := certificate(t, h.pki, "client-ca", "annex-client-ca", "alice", "system:masters", "team")
	return newSession(t, strings.TrimPrefix(h.Config.Host, "https://"), clientTLS(t, filepath.Join(h.DataDir(), "pki", "serving-ca.crt"), pair))
}

// token returns one of a service account that may do nothing.
func (h *evilHost) token(t *testing.T) string {
	t.Helper()
	var token string
	framework.Eventually(t, patience, func() error {
		answer, err := h.Kubernetes.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err == nil {
			token = answer.Status.Token
		}
		return err
	})
	return token
}

// TestBackends has a server behind an APIService redirect, switch protocols, and look for credentials.
func TestBackends(t *testing.T) {
	t.Parallel()
	h := startEvilHost(t)
	t.Run("RedirectsAreNotFollowedNorPassedOn", func(t *testing.T) { redirects(t, h) })
	t.Run("ProtocolsAreNotSwitchedUnasked", func(t *testing.T) { switches(t, h) })
	t.Run("UpgradesCarryNoSecondRequest", func(t *testing.T) { upgrades(t, h) })
	t.Run("CredentialsStayAtHome", func(t *testing.T) { credentials(t, h) })
	if n := h.evil.misled.Load(); n > 0 {
		t.Errorf("%d requests were led astray", n)
	}
}

func redirects(t *testing.T, h *evilHost) {
	s := h.session(t)
	for _, code := range []int{300, 301, 302, 303, 305, 307, 308} {
		for _, to := range []string{h.evil.away.URL + "/", "/api/v1/secrets", "//" + strings.TrimPrefix(h.evil.away.URL, "https://") + "/", "http://169.254.169.254/latest/meta-data"} {
			target := fmt.Sprintf("%s/answer?code=%d&to=%s", evilPath, code, url.QueryEscape(to))
			for how, headers := range map[string]string{"plain": "", "an upgrade": "Connection: Upgrade\nUpgrade: websocket\n"} {
				got := s.get(t, target, headers)
				if got.code < http.StatusInternalServerError || got.header.Get("Location") != "" {
					t.Errorf("%d to %s, %s: got %d with Location %q, want 502 or 503 without", code, to, how, got.code, got.header.Get("Location"))
				}
			}
		}
	}
	// What the control plane reads by itself goes to the evil server too.
	for _, path := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3" + evilPath, "/apis", "/apis/turncoat.example.com/v1", "/apis/evil.example.com"} {
		if got := s.get(t, path, ""); got.header.Get("Location") != "" || strings.Contains(got.body, h.evil.away.URL) {
			t.Errorf("%s: got %d with Location %q: %s", path, got.code, got.header.Get("Location"), shortened(got.body))
		}
	}
}

func switches(t *testing.T, h *evilHost) {
	for name, say := range map[string]string{
		"unasked":     "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\nsmuggled",
		"to nothing":  "HTTP/1.1 101 Switching Protocols\r\n\r\nsmuggled",
		"two answers": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled",
		"no HTTP":     "220 some.mail.server\r\n",
		"two lengths": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\n{}smuggled",
	} {
		s := h.session(t)
		got := s.get(t, evilPath+"/raw?say="+url.QueryEscape(say), "")
		if got.code == http.StatusSwitchingProtocols || strings.Contains(got.body, "smuggled") {
			t.Errorf("%s: got %d %q", name, got.code, shortened(got.body))
		}
		// Nothing of it waits on the connection for the next one who uses it.
		if next := s.whoami(t, ""); next.Username != "alice" {
			t.Errorf("%s: the next request on the connection: %+v", name, next)
		}
	}
}

// upgrades asks for an upgrade and sends more, which no server may take for a request by the front proxy.
func upgrades(t *testing.T, h *evilHost) {
	h.evil.headers()
	const upgrade = "Connection: Upgrade, X-Remote-User, X-Remote-Group\nUpgrade: websocket\nX-Remote-User: root\nX-Remote-Group: root\n"
	second := fmt.Sprintf("GET %s/echo HTTP/1.1\r\nHost: evil\r\nX-Remote-User: root\r\nX-Remote-Group: system:masters\r\n\r\n", evilPath)
	var asking sync.WaitGroup
	for _, path := range []string{
		"/answer?code=403", "/answer?code=200", "/answer?code=500", // it goes on to take requests
		"/raw?say=" + url.QueryEscape("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), "/raw",
	} {
		for _, headers := range []string{upgrade, upgrade + "Content-Length: 0\n", upgrade + "Transfer-Encoding: chunked\n"} {
			s := h.session(t)
			asking.Go(func() {
				if err := s.dial(t.Context()); err != nil {
					t.Error(err)
					return
				}
				rest := second
				if strings.Contains(headers, "chunked") {
					rest = "0\r\n\r\n" + second
				}
				first := strings.ReplaceAll("GET "+evilPath+path+" HTTP/1.1\nHost: a\n"+headers+"\n", "\n", "\r\n")
				_, _ = io.WriteString(s.connection, first+rest)
				_ = s.connection.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
				_, _ = io.Copy(io.Discard, s.connection)
			})
		}
	}
	asking.Wait()
	reached := h.evil.headers()
	for _, header := range reached {
		if user := header.Values("X-Remote-User"); !cmp.Equal(user, []string{"alice"}) {
			t.Errorf("a request reached the server as %v", user)
		}
	}
	if len(reached) < 5 {
		t.Errorf("%d requests reached the server, so this tests nothing", len(reached))
	}
}

// credentials makes sure that the server learns who calls, whatever the caller says, and nothing by which it could be him elsewhere.
func credentials(t *testing.T, h *evilHost) {
	token := h.token(t)
	for _, subject := range []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "default"}, {APIGroup: rbacv1.GroupName, Kind: "User", Name: "bob"}} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "admin-" + subject.Name}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		}
		if _, err := h.Kubernetes.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s := h.session(t)
	h.evil.headers()
	for how, headers := range spoofs {
		if strings.Contains(headers, "Impersonate-") || strings.Contains(headers, "IMPERSONATE-") || strings.Contains(headers, "Authorization: B") {
			headers = "Impersonate-User: bob\nImpersonate-Uid: 7\nImpersonate-Group: team\nImpersonate-Extra-Scopes: x\n" + connectionOf(headers)
		}
		got := s.get(t, evilPath+"/echo", headers)
		if got.code == http.StatusBadRequest {
			continue
		}
		var echoed http.Header
		if err := json.Unmarshal([]byte(got.body), &echoed); err != nil {
			t.Errorf("%s: got %d %s", how, got.code, shortened(got.body))
			continue
		}
		want := map[string][]string{"X-Remote-User": {"alice"}, "X-Remote-Group": {"system:authenticated", "system:masters", "team"}}
		if strings.Contains(headers, "Impersonate-User") {
			want = map[string][]string{"X-Remote-User": {"bob"}, "X-Remote-Uid": {"7"}, "X-Remote-Group": {"system:authenticated", "team"}, "X-Remote-Extra-Scopes": {"x"}}
		}
		checkIdentity(t, how, want, echoed)
	}

	config := clientTLS(t, filepath.Join(h.DataDir(), "pki", "serving-ca.crt"), pki.Pair{})
	anybody := newSession(t, s.address, config)
	for _, headers := range []string{"", "Connection: Authorization\n", "Connection: Upgrade\nUpgrade: websocket\n"} {
		h.evil.headers()
		framework.Eventually(t, patience, func() error {
			if got := anybody.get(t, evilPath+"/raw?say=HTTP/1.1+403+Forbidden%0d%0aContent-Length:+0%0d%0a%0d%0a", "Authorization: Bearer "+token+"\n"+headers); got.code != http.StatusForbidden {
				return fmt.Errorf("got %d", got.code)
			}
			if reached := h.evil.headers(); len(reached) == 0 {
				return fmt.Errorf("it has not reached the server")
			} else if text := fmt.Sprint(reached); strings.Contains(text, token) || strings.Contains(text, "Bearer") {
				t.Errorf("the server got the token: %s", text)
			}
			return nil
		})
	}
}

// connectionOf keeps the header Connection of several.
func connectionOf(headers string) string {
	for line := range strings.Lines(headers) {
		if strings.HasPrefix(line, "Connection:") {
			return line
		}
	}
	return ""
}

// checkIdentity compares all headers that tell of a user.
func checkIdentity(t *testing.T, how string, want map[string][]string, header http.Header) {
	t.Helper()
	got := map[string][]string{}
	for name, values := range header {
		slices.Sort(values)
		lower := strings.ToLower(name)
		switch {
		case strings.HasPrefix(lower, "x-remote-extra-authentication.kubernetes.io"): // the certificate's fingerprint
		case strings.HasPrefix(lower, "x-remote-"):
			got[name] = values
		case strings.HasPrefix(lower, "impersonate-"), lower == "authorization", lower == "proxy-authorization":
			t.Errorf("%s: the server got %s", how, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: who it is (-want,+got):\n%s", how, diff)
	}
}
