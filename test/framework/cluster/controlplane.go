// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"path/filepath"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// ControlPlaneIdentity is what replicas of `annex controlplane` on one machine have in common.
type ControlPlaneIdentity struct {
	// Flags name the certificates and keys.
	Flags []string
	// Admin may do everything; Serving signed the certificates of the replicas.
	Admin   pki.Pair
	Serving *pki.Authority
}

// NewControlPlaneIdentity makes all certificates and keys below dir.
func NewControlPlaneIdentity(dir string) (*ControlPlaneIdentity, error) {
	directory, err := pki.Open(filepath.Join(dir, "pki"))
	if err != nil {
		return nil, err
	}
	authorities := map[string]*pki.Authority{}
	for _, name := range []string{"serving-ca", "client-ca", "front-proxy-ca"} {
		if authorities[name], err = directory.Authority(name, name); err != nil {
			return nil, err
		}
	}
	serving, clients := authorities["serving-ca"], authorities["client-ca"]
	pair, servingErr := serving.Serving("control-plane", "localhost", "127.0.0.1")
	admin, adminErr := clients.Client("admin", "admin", "system:masters")
	proxy, proxyErr := authorities["front-proxy-ca"].Client(proxyUser, "annex-aggregator")
	key, keyErr := directory.Key("service-accounts")
	if err := errors.Join(servingErr, adminErr, proxyErr, keyErr); err != nil {
		return nil, err
	}
	return &ControlPlaneIdentity{Admin: admin, Serving: serving, Flags: []string{
		"--tls-cert-file=" + pair.CertFile, "--tls-private-key-file=" + pair.KeyFile,
		"--client-ca-file=" + clients.CertFile(),
		"--requestheader-client-ca-file=" + authorities["front-proxy-ca"].CertFile(), "--requestheader-allowed-names=annex-aggregator",
		"--proxy-client-cert-file=" + proxy.CertFile, "--proxy-client-key-file=" + proxy.KeyFile,
		"--service-account-issuer=" + tokenAudience, "--service-account-signing-key-file=" + key,
		"--cluster-signing-cert-file=" + clients.CertFile(), "--cluster-signing-key-file=" + clients.KeyFile(),
		"--root-ca-file=" + serving.CertFile(),
	}}, nil
}
