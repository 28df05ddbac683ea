// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"errors"
	"net"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/internal/options"
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

	host, extension                            *credential // serving
	admin, extensionClient, controllers, proxy *credential // clients

	// serviceAccountKey is the file of the key that signs service account tokens.
	serviceAccountKey string
}

func makeCertificates(dir string, bindAddress net.IP, lifetimes pki.Lifetimes) (*certificates, error) {
	directory, err := pki.OpenFor(dir, lifetimes)
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
	serving := func(name string, hosts ...string) *credential {
		return &credential{name: name, issue: func() (pki.Pair, error) { return c.servingCA.Serving(name, hosts...) }}
	}
	client := func(authority *pki.Authority, name, user string, groups ...string) *credential {
		return &credential{name: name, issue: func() (pki.Pair, error) { return authority.Client(name, user, groups...) }}
	}
	c.host = serving("control-plane", hosts...)
	c.extension = serving("extension", service.DNSName(), "localhost", "127.0.0.1")
	c.admin = client(c.clientCA, "admin", adminUser, mastersGroup)
	c.extensionClient = client(c.clientCA, "extension-client", extensionUser)
	c.controllers = client(c.clientCA, "controllers-client", controllersUser)
	c.proxy = client(c.proxyCA, "front-proxy-client", proxyUser)
	_, _, err = c.renew()
	return c, err
}

// renew renews what is due. It returns the names of the new certificates, and whether there are new ones of authorities, also
// where others could not be renewed.
func (c *certificates) renew() (names []string, authorities bool, err error) {
	var errs []error
	for _, authority := range []*pki.Authority{c.servingCA, c.clientCA, c.proxyCA} {
		renewed, err := authority.Renew()
		authorities = authorities || renewed
		errs = append(errs, err)
	}
	for _, one := range []*credential{c.host, c.extension, c.admin, c.extensionClient, c.controllers, c.proxy} {
		renewed, err := one.renew()
		if renewed {
			names = append(names, one.name)
		}
		errs = append(errs, err)
	}
	return names, authorities, errors.Join(errs...)
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
