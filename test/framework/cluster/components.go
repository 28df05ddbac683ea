// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net"
	"path/filepath"
	"strconv"
)

const (
	// proxyUser is the name in the certificate with which the aggregator introduces users to extension servers.
	proxyUser     = "front-proxy-client"
	tokenAudience = "https://kubernetes.default.svc"
)

func (c *Cluster) apiServerArgs(more []string) []string {
	made := c.certificates
	args := []string{
		"--etcd-servers=" + c.etcd.Servers(),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.port),
		"--tls-cert-file=" + made.apiServer.CertFile,
		"--tls-private-key-file=" + made.apiServer.KeyFile,
		"--client-ca-file=" + made.clientCA.CertFile(),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none",
		"--service-account-issuer=" + tokenAudience,
		"--service-account-key-file=" + made.serviceAccounts.CertFile,
		"--service-account-signing-key-file=" + made.serviceAccounts.KeyFile,
		"--requestheader-client-ca-file=" + made.proxyCA.CertFile(),
		"--requestheader-allowed-names=" + proxyUser,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + made.proxy.CertFile,
		"--proxy-client-key-file=" + made.proxy.KeyFile,
		"--kubelet-client-certificate=" + made.kubelet.CertFile,
		"--kubelet-client-key=" + made.kubelet.KeyFile,
	}
	return append(append(args, c.options.APIServerArgs...), more...)
}

// startOthers starts what turns an API into a cluster.
func (c *Cluster) startOthers() error {
	made := c.certificates
	controllers, err := made.kubeconfig("kube-controller-manager", c.URL(), made.controllers)
	if err != nil {
		return err
	}
	scheduler, err := made.kubeconfig("kube-scheduler", c.URL(), made.scheduler)
	if err != nil {
		return err
	}
	for _, other := range []struct {
		name, kubeconfig string
		args             []string
	}{
		{"kube-controller-manager", controllers, []string{
			"--root-ca-file=" + made.servingCA.CertFile(),
			"--service-account-private-key-file=" + made.serviceAccounts.KeyFile,
			"--use-service-account-credentials=true",
		}},
		{"kube-scheduler", scheduler, nil},
	} {
		serving, err := c.servingArgs(other.name, other.kubeconfig)
		if err != nil {
			return err
		}
		if err := c.runOther(other.name, other.name, append(serving, other.args...)...); err != nil {
			return err
		}
	}
	for _, node := range c.options.Nodes {
		if _, err := c.StartNode(node); err != nil {
			return err
		}
	}
	return nil
}

// servingArgs has a component serve its metrics, to those whom the cluster knows and allows to get them.
func (c *Cluster) servingArgs(component, kubeconfig string) ([]string, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	c.Metrics[component] = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + "/metrics"
	return []string{
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.certificates.components.CertFile,
		"--tls-private-key-file=" + c.certificates.components.KeyFile,
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
	}, nil
}

// StartNode starts a kubelet with a fake container runtime, which the nodes of the options have already. It registers a node with one
// CPU and 3840Mi. Of kubelets' flags it knows --node-labels and --register-with-taints.
func (c *Cluster) StartNode(name string, more ...string) (*Process, error) {
	kubeconfig, err := c.Identity("system:node:"+name, "system:nodes")
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	readOnlyPort, err := FreePort()
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"--morph=kubelet",
		"--name=" + name,
		"--kubeconfig=" + kubeconfig,
		"--use-host-image-service=false",
		"--kubelet-port=" + strconv.Itoa(port),
		"--kubelet-read-only-port=" + strconv.Itoa(readOnlyPort),
		"--cert-dir=" + filepath.Join(c.options.Dir, "kubelet-"+name),
	}, more...)
	if err = c.runOther("kubelet-"+name, "kubemark", args...); err != nil {
		return nil, err
	}
	return c.others[len(c.others)-1], nil
}

func (c *Cluster) runOther(name, command string, args ...string) error {
	process, err := c.run(name, command, args...)
	if err == nil {
		c.others = append(c.others, process)
	}
	return err
}
