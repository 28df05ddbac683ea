// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"path/filepath"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// certificates are all that the components need to know each other.
type certificates struct {
	directory                     *pki.Directory
	servingCA, clientCA, proxyCA  *pki.Authority
	apiServer, proxy, kubelet     pki.Pair
	components, serviceAccounts   pki.Pair
	admin, controllers, scheduler pki.Pair
}

func makeCertificates(dir string) (*certificates, error) {
	directory, err := pki.Open(dir)
	if err != nil {
		return nil, err
	}
	c := &certificates{directory: directory}
	for name, into := range map[string]**pki.Authority{"serving-ca": &c.servingCA, "client-ca": &c.clientCA, "front-proxy-ca": &c.proxyCA} {
		if *into, err = directory.Authority(name, "kubernetes-"+name); err != nil {
			return nil, err
		}
	}
	hosts := []string{"localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	for _, leaf := range []struct {
		into *pki.Pair
		make func() (pki.Pair, error)
	}{
		{&c.apiServer, func() (pki.Pair, error) { return c.servingCA.Serving("kube-apiserver", hosts...) }},
		{&c.components, func() (pki.Pair, error) { return c.servingCA.Serving("components", "localhost", "127.0.0.1") }},
		// Any pair of keys signs and verifies the tokens of service accounts.
		{&c.serviceAccounts, func() (pki.Pair, error) { return c.servingCA.Serving("service-accounts", "localhost") }},
		{&c.proxy, func() (pki.Pair, error) { return c.proxyCA.Client("front-proxy-client", proxyUser) }},
		{&c.kubelet, func() (pki.Pair, error) {
			return c.clientCA.Client("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
		}},
		{&c.admin, func() (pki.Pair, error) { return c.clientCA.Client("admin", "kubernetes-admin", "system:masters") }},
		{&c.controllers, func() (pki.Pair, error) {
			return c.clientCA.Client("kube-controller-manager", "system:kube-controller-manager")
		}},
		{&c.scheduler, func() (pki.Pair, error) { return c.clientCA.Client("kube-scheduler", "system:kube-scheduler") }},
	} {
		if *leaf.into, err = leaf.make(); err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
	}
	return c, nil
}

// kubeconfig writes the file of one user and returns its path.
func (c *certificates) kubeconfig(name, server string, user pki.Pair) (string, error) {
	path := filepath.Join(c.directory.Path(), name+".kubeconfig")
	return path, pki.WriteKubeconfig(path, server, c.servingCA.CertFile(), user)
}
