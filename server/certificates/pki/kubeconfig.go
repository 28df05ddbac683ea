// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const kubeconfigEntry = "annex"

// WriteKubeconfig writes a kubeconfig for the server's URL, with the certificates inside and readable by its owner
// only. It replaces the file in one step.
func WriteKubeconfig(path, server, caFile string, client Pair) error {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return fmt.Errorf("read certificate authority for kubeconfig: %w", err)
	}
	cert, err := os.ReadFile(client.CertFile)
	if err != nil {
		return fmt.Errorf("read client certificate for kubeconfig: %w", err)
	}
	key, err := os.ReadFile(client.KeyFile)
	if err != nil {
		return fmt.Errorf("read client key for kubeconfig: %w", err)
	}
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{kubeconfigEntry: {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{kubeconfigEntry: {ClientCertificateData: cert, ClientKeyData: key}},
		Contexts:       map[string]*clientcmdapi.Context{kubeconfigEntry: {Cluster: kubeconfigEntry, AuthInfo: kubeconfigEntry}},
		CurrentContext: kubeconfigEntry,
	})
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	if err := WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
