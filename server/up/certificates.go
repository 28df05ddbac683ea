// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"
	"net"

	"github.com/kube-annex/annex/server/options"
	"github.com/kube-annex/annex/server/pki"
)

const (
	// extensionUser is who the extension apiserver is on the host.
	extensionUser = "system:annex:apiserver"
	// controllersUser is who the extension's controllers are on the host.
	controllersUser = "system:annex:controllers"
	// proxyUser is the name in the certificate with which the host's aggregator introduces users to the extension apiserver.
	proxyUser = "annex-aggregator"
	adminUser = "annex-admin"
	// serviceAccountIssuer is the same whatever port the host listens on, so that tokens outlive a change of it.
	serviceAccountIssuer = "https://kubernetes.default.svc"
	// mastersGroup may do everything.
	mastersGroup = "system:masters"
)

// certificates are all that the parts need to know each other. Serving, users and front proxies have an authority
// each: none of them can speak for another.
type certificates struct {
	servingCA, clientCA, proxyCA *pki.Authority

	host, extension               pki.Pair // serving
	admin, extensionClient, proxy pki.Pair // clients
	controllers                   pki.Pair

	// serviceAccountKey is the file of the key that signs service account tokens.
	serviceAccountKey string
}

func makeCertificates(dir string, bindAddress net.IP) (*certificates, error) {
	directory, err := pki.Open(dir)
	if err != nil {
		return nil, err
	}
	c := &certificates{}
	for _, authority := range []struct {
		into             **pki.Authority
		name, commonName string
	}{
		{&c.servingCA, "serving-ca", "annex-serving-ca"},
		{&c.clientCA, "client-ca", "annex-client-ca"},
		{&c.proxyCA, "front-proxy-ca", "annex-front-proxy-ca"},
	} {
		if *authority.into, err = directory.Authority(authority.name, authority.commonName); err != nil {
			return nil, err
		}
	}
	if c.serviceAccountKey, err = directory.Key("service-accounts"); err != nil {
		return nil, err
	}
	hosts := []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	for _, address := range reachable(bindAddress) {
		hosts = append(hosts, address.String())
	}
	service := options.NewService()
	for _, leaf := range []struct {
		into *pki.Pair
		make func() (pki.Pair, error)
	}{
		{&c.host, func() (pki.Pair, error) { return c.servingCA.Serving("control-plane", hosts...) }},
		{&c.extension, func() (pki.Pair, error) {
			return c.servingCA.Serving("extension", service.DNSName(), "localhost", "127.0.0.1")
		}},
		{&c.admin, func() (pki.Pair, error) { return c.clientCA.Client("admin", adminUser, mastersGroup) }},
		{&c.extensionClient, func() (pki.Pair, error) { return c.clientCA.Client("extension-client", extensionUser) }},
		{&c.controllers, func() (pki.Pair, error) { return c.clientCA.Client("controllers-client", controllersUser) }},
		{&c.proxy, func() (pki.Pair, error) { return c.proxyCA.Client("front-proxy-client", proxyUser) }},
	} {
		if *leaf.into, err = leaf.make(); err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
	}
	return c, nil
}

// reachable lists the addresses under which a server bound to the address can be reached.
func reachable(bindAddress net.IP) []net.IP {
	if !bindAddress.IsUnspecified() {
		return []net.IP{bindAddress}
	}
	var found []net.IP
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil // the server is still reached as localhost
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			found = append(found, network.IP)
		}
	}
	return found
}
