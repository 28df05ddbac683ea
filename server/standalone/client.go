// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// client is how a part of this process reaches the host. The host looks at the certificate of a connection with each request, so requests
// after a renewal go over new connections. Those of before end by themselves, with the last watch on them: nothing is cut off.
// client-go, which can follow files, closes them in the middle of whatever they carry.
type client struct {
	hostURL    string
	credential *credential
	// authority returns the certificate of the host's authority, in PEM.
	authority func() []byte

	mu      sync.Mutex
	current *http.Transport
}

func newClient(hostURL string, credential *credential, authority func() []byte) *client {
	c := &client{hostURL: hostURL, credential: credential, authority: authority}
	c.current = c.transport()
	return c
}

// config is for clients of the host.
func (c *client) config() *rest.Config {
	return &rest.Config{Host: c.hostURL, Transport: c, QPS: -1}
}

// renewed has later requests show the certificate of now, and believe in the authority of now.
func (c *client) renewed() {
	next := c.transport()
	c.mu.Lock()
	before := c.current
	c.current = next
	c.mu.Unlock()
	before.CloseIdleConnections()
}

// close ends connections that nothing is sent over.
func (c *client) close() { c.transportOfNow().CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (c *client) RoundTrip(request *http.Request) (*http.Response, error) {
	return c.transportOfNow().RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the transport below.
func (c *client) WrappedRoundTripper() http.RoundTripper { return c.transportOfNow() }

func (c *client) transportOfNow() *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// transport has the time-outs that client-go's have.
func (c *client) transport() *http.Transport {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.authority())
	return utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, GetClientCertificate: c.credential.certificate},
		TLSHandshakeTimeout: 10 * time.Second,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
	})
}
