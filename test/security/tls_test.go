// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"crypto/tls"
	"fmt"
	"slices"
	"testing"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// TestTLSVersionsAndCiphers tries all that TLS has had so far at both ports.
func TestTLSVersionsAndCiphers(t *testing.T) {
	t.Parallel()
	for door, address := range plain.doors() {
		handshake := func(change func(*tls.Config)) (tls.ConnectionState, error) {
			config := plain.tls(t, pki.Pair{})
			change(config)
			connection, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
			if err != nil {
				return tls.ConnectionState{}, err
			}
			defer func() { _ = connection.Close() }()
			return connection.(*tls.Conn).ConnectionState(), nil
		}
		for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
			state, err := handshake(func(c *tls.Config) { c.MinVersion, c.MaxVersion = version, version })
			if want != (err == nil) || want && state.Version != version {
				t.Errorf("%s, %s: got %v, want success: %t", door, tls.VersionName(version), err, want)
			}
		}
		secure := 0
		for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
			if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
				continue
			}
			_, err := handshake(func(c *tls.Config) { c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{suite.ID} })
			if err == nil && suite.Insecure {
				t.Errorf("%s takes %s", door, suite.Name)
			}
			if err == nil {
				secure++
			}
		}
		if secure == 0 {
			t.Errorf("%s takes no cipher suite at all, so this tests nothing", door)
		}
		if _, err := handshake(func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768} }); err != nil {
			t.Errorf("%s: a key exchange for the time after quantum computers: %v", door, err)
		}
		// A server asks for certificates of the authorities that it believes, and of nobody else's.
		var asked []string
		_, err := handshake(func(c *tls.Config) {
			c.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
				for _, name := range request.AcceptableCAs {
					asked = append(asked, fmt.Sprintf("%q", name))
				}
				return &tls.Certificate{}, nil
			}
		})
		if err != nil || len(asked) != 2 {
			t.Errorf("%s: asks for certificates of %v (%v), want those of users and of front proxies", door, asked, err)
		}
		// Names that the server does not have get no certificate of another kind, the loopback client's in particular.
		for _, name := range []string{"apiserver-loopback-client", "localhost"} {
			_, err := handshake(func(c *tls.Config) { c.ServerName = name })
			if (err == nil) != (name == "localhost") {
				t.Errorf("%s as %s: %v", door, name, err)
			}
		}
	}
}
