// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// startTimeout is generous: a busy machine may start many things at once.
	startTimeout = 2 * time.Minute
	// tailLines is how much of a log goes into an error.
	tailLines = 30
)

// hollowDirectory is what a hollow kubelet makes outside the directories that it is given, and leaves behind.
var hollowDirectory = regexp.MustCompile(`/tmp/hollow-kubelet\.\d+`)

// Options configure a cluster.
type Options struct {
	// Dir is a directory of the cluster's own; Bin is what Build returned.
	Dir, Bin string
	// Nodes are the names of hollow kubelets. With none there are no scheduler and no controllers either.
	Nodes []string
	// APIServerArgs are added to kube-apiserver's flags.
	APIServerArgs []string
	// EtcdArgs are added to etcd's.
	EtcdArgs []string
}

// Cluster is a running cluster.
type Cluster struct {
	options      Options
	etcd         *Etcd
	certificates *certificates
	port         int
	apiServer    *Process
	others       []*Process

	// Kubeconfig is a file with all rights, and Config is the same without limits on the client's side.
	Kubeconfig string
	Config     *rest.Config
	Kubernetes *kubernetes.Clientset
	// Metrics is where components other than kube-apiserver have their metrics, by component.
	Metrics map[string]string
}

// Start starts a cluster and waits until its API answers. Controllers and nodes may still be starting.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	c := &Cluster{options: options, Metrics: map[string]string{}}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) (err error) {
	if err = os.MkdirAll(filepath.Join(c.options.Dir, "etcd"), 0o700); err != nil {
		return err
	}
	if c.etcd, err = StartEtcd(ctx, c.options.Bin, filepath.Join(c.options.Dir, "etcd"), 1, c.options.EtcdArgs...); err != nil {
		return err
	}
	if c.certificates, err = makeCertificates(filepath.Join(c.options.Dir, "pki")); err != nil {
		return err
	}
	if c.port, err = FreePort(); err != nil {
		return err
	}
	if c.Kubeconfig, err = c.certificates.kubeconfig("admin", c.URL(), c.certificates.admin); err != nil {
		return err
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return err
	}
	c.Config.QPS = -1
	if c.Kubernetes, err = kubernetes.NewForConfig(c.Config); err != nil {
		return err
	}
	if err = c.StartAPIServer(ctx); err != nil {
		return err
	}
	if len(c.options.Nodes) == 0 {
		return nil
	}
	return c.startOthers()
}

// URL is where the API is.
func (c *Cluster) URL() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port))
}

// Etcd is where kube-apiserver keeps everything.
func (c *Cluster) Etcd() *Etcd { return c.etcd }

// APIServer is kube-apiserver.
func (c *Cluster) APIServer() *Process { return c.apiServer }

// Bin is the directory with the components.
func (c *Cluster) Bin() string { return c.options.Bin }

// StartAPIServer starts kube-apiserver, which Start has done and KillAPIServer undone, and waits until it is ready. This once it
// gets more flags than those of the options.
func (c *Cluster) StartAPIServer(ctx context.Context, more ...string) (err error) {
	c.apiServer, err = c.run("kube-apiserver", "kube-apiserver", c.apiServerArgs(more)...)
	if err != nil {
		return err
	}
	return c.apiServer.Await(ctx, startTimeout, func(ctx context.Context) error {
		return c.Kubernetes.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(2 * time.Second).Do(ctx).Error()
	})
}

// KillAPIServer ends kube-apiserver at once, as if its machine went away, and leaves everything else running.
func (c *Cluster) KillAPIServer() { c.apiServer.Kill() }

// Identity writes a kubeconfig for a user and returns its path. It works as soon as Start has been called.
func (c *Cluster) Identity(user string, groups ...string) (string, error) {
	pair, err := c.certificates.clientCA.Client("user-"+user, user, groups...)
	if err != nil {
		return "", err
	}
	return c.certificates.kubeconfig("user-"+user, c.URL(), pair)
}

// Logs is the end of all logs.
func (c *Cluster) Logs() string {
	out := ""
	for _, process := range append([]*Process{c.apiServer}, c.others...) {
		if process != nil {
			out += fmt.Sprintf("--- the end of the log of %s\n%s\n", process.Name, process.Tail(tailLines))
		}
	}
	return out
}

// Stop ends everything, in the reverse order. None of it does better with a warning: kube-apiserver waits a minute for
// watches that it proxies, and what it has stored goes with it.
func (c *Cluster) Stop() {
	for _, process := range slices.Backward(c.others) {
		process.Kill()
		for _, directory := range hollowDirectory.FindAllString(process.Log(), -1) { // Kubelets of one name share a log.
			_ = os.RemoveAll(directory)
		}
	}
	if c.apiServer != nil {
		c.apiServer.Kill()
	}
	if c.etcd != nil {
		c.etcd.Stop()
	}
}

func (c *Cluster) run(name, command string, args ...string) (*Process, error) {
	return StartProcess(name, filepath.Join(c.options.Dir, name+".log"), filepath.Join(c.options.Bin, command), args...)
}
