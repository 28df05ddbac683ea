// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/pki"
	"github.com/kube-annex/annex/test/cluster"
)

const (
	user      = "system:annex:apiserver"
	claims    = "/apis/multicluster.k8s.io/v1alpha1/clusterclaims"
	crdGroup  = "bench.example.com"
	customs   = "/apis/" + crdGroup + "/v1alpha1/clusterclaims"
	configs   = "/api/v1/namespaces/default/configmaps"
	untilThen = time.Minute
)

// servers are a cluster and Annex registered with it, each on an etcd of its own with the same settings.
type servers struct {
	dir     string
	host    *cluster.Cluster
	etcd    *cluster.Etcd
	annex   *cluster.Process
	annexCA string
	port    int
}

func startServers(ctx context.Context, root string) (_ *servers, err error) {
	s := &servers{}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "annex-bench-"); err != nil {
		return nil, err
	}
	bin, err := cluster.Build(ctx, root, os.Stderr)
	if err != nil {
		return nil, err
	}
	if s.host, err = cluster.Start(ctx, cluster.Options{Dir: filepath.Join(s.dir, "host"), Bin: bin}); err != nil {
		return nil, err
	}
	if err = os.MkdirAll(filepath.Join(s.dir, "etcd"), 0o700); err != nil {
		return nil, err
	}
	if s.etcd, err = cluster.StartEtcd(ctx, bin, filepath.Join(s.dir, "etcd"), 1); err != nil {
		return nil, err
	}
	return s, s.startAnnex(ctx, root)
}

func (s *servers) startAnnex(ctx context.Context, root string) error {
	binary := filepath.Join(s.dir, "annex")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/annex")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building annex: %w\n%s", err, output)
	}
	directory, err := pki.Open(filepath.Join(s.dir, "pki"))
	if err != nil {
		return err
	}
	authority, err := directory.Authority("ca", "annex-ca")
	if err != nil {
		return err
	}
	serving, err := authority.Serving("annex", "annex-apiserver.annex-system.svc", "localhost")
	if err != nil {
		return err
	}
	s.annexCA = authority.CertFile()
	if s.port, err = cluster.FreePort(); err != nil {
		return err
	}
	kubeconfig, err := s.host.Identity(user)
	if err != nil {
		return err
	}
	register := exec.CommandContext(ctx, binary, "register", "--kubeconfig="+s.host.Kubeconfig, "--user="+user,
		"--external-name=localhost", "--service-port="+strconv.Itoa(s.port), "--ca-file="+s.annexCA)
	if output, registerErr := register.CombinedOutput(); registerErr != nil {
		return fmt.Errorf("registering annex: %w\n%s", registerErr, output)
	}
	s.annex, err = cluster.StartProcess("annex", filepath.Join(s.dir, "annex.log"), binary, "apiserver",
		"--kubeconfig="+kubeconfig, "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(s.port),
		"--tls-cert-file="+serving.CertFile, "--tls-private-key-file="+serving.KeyFile, "--etcd-servers="+s.etcd.Servers())
	return err
}

func (s *servers) stop() {
	if s.annex != nil {
		if err := s.annex.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: stopping annex:", err)
		}
	}
	if s.etcd != nil {
		s.etcd.Stop()
	}
	if s.host != nil {
		s.host.Stop()
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// targets returns the peers once all of them are served.
func (s *servers) targets(ctx context.Context) ([]*target, error) {
	if err := s.createCRD(ctx); err != nil {
		return nil, err
	}
	direct := rest.CopyConfig(s.host.Config)
	direct.Host = "https://localhost:" + strconv.Itoa(s.port)
	direct.CAFile, direct.CAData = s.annexCA, nil
	var out []*target
	for _, t := range []*target{
		{name: "annex, direct", path: claims, config: direct, apiVersion: "multicluster.k8s.io/v1alpha1", kind: "ClusterClaim", protobuf: true},
		{name: "annex, aggregated", path: claims, config: s.host.Config, apiVersion: "multicluster.k8s.io/v1alpha1", kind: "ClusterClaim", protobuf: true},
		{name: "CRD", path: customs, config: s.host.Config, apiVersion: crdGroup + "/v1alpha1", kind: "ClusterClaim"},
		{name: "ConfigMap", path: configs, config: s.host.Config, apiVersion: "v1", kind: "ConfigMap", protobuf: true},
	} {
		if err := t.connect(); err != nil {
			return nil, err
		}
		var last error
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, untilThen, true, func(ctx context.Context) (bool, error) {
			last = t.request(ctx, "GET", "?limit=1", "", nil)
			return last == nil, nil
		})
		if err != nil {
			return nil, fmt.Errorf("waiting for %s to be served: %w", t.name, errors.Join(err, last))
		}
		out = append(out, t)
	}
	return out, nil
}

// createCRD makes a custom resource with the schema of ClusterClaim.
func (s *servers) createCRD(ctx context.Context) error {
	client, err := apiextensions.NewForConfig(s.host.Config)
	if err != nil {
		return err
	}
	one, most := int64(1), int64(131072)
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	condition := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"type": text, "status": text, "reason": text, "message": text,
		"lastTransitionTime": {Type: "string", Format: "date-time"}, "observedGeneration": {Type: "integer", Format: "int64"},
	}, Required: []string{"type", "status", "reason", "message", "lastTransitionTime"}}
	byType := "map"
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Required: []string{"value"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"value": {Type: "string", MinLength: &one, MaxLength: &most},
		}},
		"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"observedGeneration": {Type: "integer", Format: "int64"},
			"conditions": {Type: "array", XListType: &byType, XListMapKeys: []string{"type"},
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &condition}},
		}},
	}}
	_, err = client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "clusterclaims." + crdGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: crdGroup, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "clusterclaims", Singular: "clusterclaim", Kind: "ClusterClaim", ListKind: "ClusterClaimList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}, metav1.CreateOptions{})
	return err
}
