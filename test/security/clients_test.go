// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/certificates/pki"
)

const (
	claimsPath = "/apis/multicluster.k8s.io/v1alpha1/clusterclaims"
	whoamiPath = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
)

// doors are both ways to the extension's kinds, by name.
func (a *annex) doors() map[string]string {
	return map[string]string{"the control plane": a.host, "the extension apiserver": a.extension}
}

// issued numbers the certificates, which have a file each.
var issued atomic.Int32

func certificate(t *testing.T, directory *pki.Directory, authority, authorityName, commonName string, groups ...string) pki.Pair {
	t.Helper()
	ca, err := directory.Authority(authority, authorityName)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Client(fmt.Sprintf("test-%d", issued.Add(1)), commonName, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// user returns the certificate of a user.
func (a *annex) user(t *testing.T, name string, groups ...string) pki.Pair {
	t.Helper()
	return certificate(t, a.pki, "client-ca", "annex-client-ca", name, groups...)
}

// proxy returns a certificate of the front proxies' authority.
func (a *annex) proxy(t *testing.T, name string) pki.Pair {
	t.Helper()
	return certificate(t, a.pki, "front-proxy-ca", "annex-front-proxy-ca", name)
}

// tls returns how to speak with the servers, with a certificate or, if the pair is empty, with none.
func (a *annex) tls(t *testing.T, pair pki.Pair) *tls.Config {
	t.Helper()
	return clientTLS(t, filepath.Join(a.dataDir, "pki", "serving-ca.crt"), pair)
}

func clientTLS(t *testing.T, caFile string, pair pki.Pair) *tls.Config {
	t.Helper()
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(ca)
	if pair.CertFile != "" {
		own, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		// A server says which authorities it wants certificates of; attackers do not care.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	return config
}

// admin returns clients that may do everything.
func (a *annex) admin(t *testing.T) (*rest.Config, kubernetes.Interface, versioned.Interface) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(a.dataDir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config, kubernetes.NewForConfigOrDie(config), versioned.NewForConfigOrDie(config)
}

// as returns clients of a user.
func (a *annex) as(t *testing.T, name string, groups ...string) *rest.Config {
	t.Helper()
	pair := a.user(t, name, groups...)
	return &rest.Config{Host: "https://" + a.host, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAFile: filepath.Join(a.dataDir, "pki", "serving-ca.crt"), CertFile: pair.CertFile, KeyFile: pair.KeyFile,
	}}
}

// session sends requests as they are written here, byte by byte: no client library makes them valid or tidy.
type session struct {
	address    string
	tls        *tls.Config
	connection net.Conn
	reader     *bufio.Reader
}

func newSession(t *testing.T, address string, config *tls.Config) *session {
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	s := &session{address: address, tls: config}
	t.Cleanup(s.close)
	return s
}

func (s *session) close() {
	if s.connection != nil {
		_ = s.connection.Close()
		s.connection = nil
	}
}

func (s *session) dial(ctx context.Context) error {
	if s.connection != nil {
		return nil
	}
	connection, err := (&tls.Dialer{Config: s.tls}).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return err
	}
	s.connection, s.reader = connection, bufio.NewReader(connection)
	return connection.SetDeadline(time.Now().Add(patience))
}

// answer is what came back. Its code is 0 where the server has closed the connection instead.
type answer struct {
	code   int
	header http.Header
	body   string
}

// send sends the text, in which lines end with \n, and returns the answer.
func (s *session) send(ctx context.Context, request string) (answer, error) {
	reused := s.connection != nil
	if err := s.dial(ctx); err != nil {
		return answer{}, err
	}
	if err := s.connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return answer{}, err
	}
	head, body, _ := strings.Cut(request, "\n\n")
	_, err := io.WriteString(s.connection, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body)
	var response *http.Response
	if err == nil {
		response, err = http.ReadResponse(s.reader, nil)
	}
	if err != nil {
		s.close()
		if reused { // The server may have closed it between two requests.
			return s.send(ctx, request)
		}
		return answer{}, nil
	}
	content, err := io.ReadAll(response.Body)
	if err != nil || response.Close {
		s.close()
	}
	return answer{response.StatusCode, response.Header, string(content)}, nil
}

// get sends a GET with the target and headers as they are.
func (s *session) get(t *testing.T, target, headers string) answer {
	t.Helper()
	got, err := s.send(t.Context(), "GET "+target+" HTTP/1.1\nHost: "+s.address+"\n"+headers+"\n")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// post sends a POST with a body.
func (s *session) post(t *testing.T, target, contentType, headers, body string) answer {
	t.Helper()
	got, err := s.send(t.Context(), fmt.Sprintf("POST %s HTTP/1.1\nHost: %s\nContent-Type: %s\nContent-Length: %d\n%s\n%s", target, s.address, contentType, len(body), headers, body))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// silence opens a connection on which nothing is said, not even a greeting.
func silence(t *testing.T, address string) (connection net.Conn, end func()) {
	t.Helper()
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return connection, func() { _ = connection.Close() }
}
