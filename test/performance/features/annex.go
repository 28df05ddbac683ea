// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework/cluster"
)

// annex is `annex up` as a process of its own.
type annex struct {
	process    *cluster.Process
	name       string
	dir        string
	kubeconfig string
	config     *rest.Config
	kubernetes *kubernetes.Clientset
	features   *versioned.Clientset
}

// startAnnex starts one that keeps its data in the directory of this name.
func startAnnex(ctx context.Context, s settings, name string, args ...string) (*annex, error) {
	a := &annex{name: name, dir: filepath.Join(s.dir, name)}
	a.kubeconfig = filepath.Join(a.dir, "kubeconfig")
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return nil, err
	}
	return a, a.start(ctx, s, args...)
}

// start starts it, again if it was killed.
func (a *annex) start(ctx context.Context, s settings, args ...string) (err error) {
	log := filepath.Join(s.dir, fmt.Sprintf("%s-%d.log", a.name, time.Now().UnixNano()))
	a.process, err = cluster.StartProcess("annex", log, s.binary,
		append([]string{"up", "--data-dir", a.dir, "--secure-port", "0", "--extension-port", "0"}, args...)...)
	if err != nil {
		return err
	}
	if err = a.process.AwaitLog(ctx, time.Minute, "export KUBECONFIG="); err != nil {
		a.process.Kill()
		return err
	}
	if a.config, err = clientcmd.BuildConfigFromFlags("", a.kubeconfig); err != nil {
		return err
	}
	a.config.QPS = -1
	if a.kubernetes, err = kubernetes.NewForConfig(a.config); err != nil {
		return err
	}
	a.features, err = versioned.NewForConfig(a.config)
	return err
}

func (a *annex) stop() {
	if err := a.process.Stop(); err != nil {
		progress("%v", err)
	}
}

// socket is where its etcd listens.
func (a *annex) socket() string { return filepath.Join(a.dir, "etcd", "client.sock") }

func (a *annex) makeNamespace(ctx context.Context, name string) error {
	_, err := a.kubernetes.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// separate returns a configuration whose clients have connections of their own.
func separate(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	out.WarningHandler = rest.NoWarnings{}
	return out
}

var residentLine = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

// resident is the memory of a process in MiB.
func resident(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	found := residentLine.FindSubmatch(status)
	if found == nil {
		return 0, errors.New("the kernel does not tell the memory of a process")
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	return kib / 1024, err
}
