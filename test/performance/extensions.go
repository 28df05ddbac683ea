// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/kube-annex/annex/test/framework/cluster"
)

// extension is an extension apiserver of the cluster.
type extension struct {
	process *cluster.Process
	port    int
	kind    kind
}

func (s *servers) annexDirect(ctx context.Context) (*peer, error) {
	server, err := s.annexExtension(ctx)
	if err != nil {
		return nil, err
	}
	return s.direct(ctx, storeOfAnnex, server)
}

func (s *servers) annexAggregated(ctx context.Context) (*peer, error) {
	server, err := s.annexExtension(ctx)
	if err != nil {
		return nil, err
	}
	return s.aggregated(ctx, storeOfAnnex, server)
}

func (s *servers) sampleDirect(ctx context.Context) (*peer, error) {
	server, err := s.sampleExtension(ctx)
	if err != nil {
		return nil, err
	}
	return s.direct(ctx, storeOfSample, server)
}

func (s *servers) sampleAggregated(ctx context.Context) (*peer, error) {
	server, err := s.sampleExtension(ctx)
	if err != nil {
		return nil, err
	}
	return s.aggregated(ctx, storeOfSample, server)
}

const (
	storeOfAnnex  = "annex"
	storeOfSample = "sample-apiserver"
)

// direct is an extension apiserver whose clients do not ask the cluster.
func (s *servers) direct(ctx context.Context, store string, server *extension) (*peer, error) {
	config, err := s.at(server.port, s.cluster.Config)
	if err != nil {
		return nil, err
	}
	p := &peer{name: store, store: store, parts: []part{{roleServer, server.process.Pid()}, {roleEtcd, s.etcd.Member(0).Pid()}}}
	if p, err = p.overHTTP(s.settings, config, server.kind); err != nil {
		return nil, err
	}
	return p, p.waitServed(ctx, server.process)
}

// aggregated is the same through kube-apiserver.
func (s *servers) aggregated(ctx context.Context, store string, server *extension) (*peer, error) {
	p := &peer{name: store, store: store, parts: []part{
		{roleServer, server.process.Pid()}, {roleHost, s.cluster.APIServer().Pid()}, {roleEtcd, s.etcd.Member(0).Pid()},
	}}
	p, err := p.overHTTP(s.settings, s.cluster.Config, server.kind)
	if err != nil {
		return nil, err
	}
	return p, p.waitServed(ctx, server.process)
}

const annexUser = "system:annex:apiserver"

func (s *servers) annexExtension(ctx context.Context) (*extension, error) {
	if s.ours != nil {
		return s.ours, nil
	}
	host, err := s.theCluster(ctx)
	if err != nil {
		return nil, err
	}
	etcd, err := s.theEtcd(ctx)
	if err != nil {
		return nil, err
	}
	port, serving, err := s.serving("annex", "annex-apiserver.annex-system.svc")
	if err != nil {
		return nil, err
	}
	authority, err := s.authority()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := host.Identity(annexUser)
	if err != nil {
		return nil, err
	}
	register := exec.CommandContext(ctx, s.binary, "register", "--kubeconfig="+host.Kubeconfig, "--user="+annexUser,
		"--external-name=localhost", "--service-port="+strconv.Itoa(port), "--ca-file="+authority.CertFile())
	if output, registerErr := register.CombinedOutput(); registerErr != nil {
		return nil, fmt.Errorf("register annex: %w\n%s", registerErr, output)
	}
	args := append([]string{"apiserver", "--kubeconfig=" + kubeconfig, "--etcd-servers=" + etcd.Servers()}, serving...)
	if s.settings.contention {
		args = append(args, "--contention-profiling")
	}
	process, err := s.start("annex", s.binary, args...)
	s.ours = &extension{process: process, port: port, kind: claims}
	return s.ours, err
}

const sampleNamespace = "wardle"

func (s *servers) sampleExtension(ctx context.Context) (*extension, error) {
	if s.sample != nil {
		return s.sample, nil
	}
	host, err := s.theCluster(ctx)
	if err != nil {
		return nil, err
	}
	etcd, err := s.theEtcd(ctx)
	if err != nil {
		return nil, err
	}
	if _, err = cluster.BuildSamples(ctx, s.settings.root, os.Stderr); err != nil {
		return nil, err
	}
	port, serving, err := s.serving("sample-apiserver", sampleNamespace+"."+sampleNamespace+".svc")
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"--etcd-servers=" + etcd.Servers(), "--kubeconfig=" + host.Kubeconfig,
		"--authentication-kubeconfig=" + host.Kubeconfig, "--authorization-kubeconfig=" + host.Kubeconfig,
	}, serving...)
	process, err := s.start("sample-apiserver", filepath.Join(s.bin, cluster.SampleAPIServer), args...)
	if err != nil {
		return nil, err
	}
	s.sample = &extension{process: process, port: port, kind: fischers}
	return s.sample, s.registerSample(ctx, port)
}

// registerSample puts the sample behind kube-apiserver, which reaches it on this machine.
func (s *servers) registerSample(ctx context.Context, port int) error {
	authority, err := s.authority()
	if err != nil {
		return err
	}
	_, err = s.cluster.Kubernetes.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sampleNamespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = s.cluster.Kubernetes.CoreV1().Services(sampleNamespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: sampleNamespace},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	registrations, err := aggregator.NewForConfig(s.cluster.Config)
	if err != nil {
		return err
	}
	number := int32(port)
	_, err = registrations.ApiregistrationV1().APIServices().Create(ctx, &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1alpha1.wardle.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "wardle.example.com", Version: "v1alpha1", GroupPriorityMinimum: 1000, VersionPriority: 15, CABundle: authority.CertPEM(),
			Service: &apiregistrationv1.ServiceReference{Namespace: sampleNamespace, Name: sampleNamespace, Port: &number},
		},
	}, metav1.CreateOptions{})
	return err
}
