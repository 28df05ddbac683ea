// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/kube-annex/annex/server/controllermanager"
	"github.com/kube-annex/annex/server/extension"
	"github.com/kube-annex/annex/server/install"
)

const deployBase = "../../artifacts/deploy/base"

// TestTheManifestsAreWhatRegisterPrints keeps the kustomize base and `annex register` the same.
func TestTheManifestsAreWhatRegisterPrints(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"register", "--dry-run", "-o", "yaml"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code is %d: %s", code, stderr.String())
	}
	content, err := os.ReadFile(filepath.Join(deployBase, "registration.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, objects, _ := strings.Cut(string(content), "below this line:\n")
	if diff := cmp.Diff(stdout.String(), objects); diff != "" {
		t.Errorf("artifacts/deploy/base/registration.yaml is not what `annex register --dry-run -o yaml` prints; put that below its first lines (-want,+got):\n%s", diff)
	}
}

// TestTheDeploymentFitsTheRegistration checks what the hand-written manifests have to have in common with it.
func TestTheDeploymentFitsTheRegistration(t *testing.T) {
	t.Parallel()
	deployment, budget := &appsv1.Deployment{}, &policyv1.PodDisruptionBudget{}
	for name, into := range map[string]any{"deployment.yaml": deployment, "poddisruptionbudget.yaml": budget} {
		content, err := os.ReadFile(filepath.Join(deployBase, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(content, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	r := install.New()
	var service *corev1.Service
	for _, object := range r.Objects() {
		if found, ok := object.(*corev1.Service); ok {
			service = found
		}
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	type summary struct {
		Namespace, ServiceAccount string
		PodLabels, Budget         map[string]string
		PortName                  string
		Port                      int32
	}
	want := summary{r.Service.Namespace, r.Service.Name, service.Spec.Selector, service.Spec.Selector, service.Spec.Ports[0].TargetPort.StrVal, extension.DefaultPort}
	got := summary{
		deployment.Namespace, deployment.Spec.Template.Spec.ServiceAccountName, deployment.Spec.Template.Labels, budget.Spec.Selector.MatchLabels,
		container.Ports[0].Name, container.Ports[0].ContainerPort,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deployment (-want,+got):\n%s", diff)
	}
	// The arguments are those of the command.
	command := newAPIServer()
	if err := command.ParseFlags(container.Args[1:]); err != nil {
		t.Error(err)
	}
}

// TestOnePodHasTheVolumeAndAnnexDoesNotGiveWay checks that balloons, and pods that no others depend on, do not displace Annex.
func TestOnePodHasTheVolumeAndAnnexDoesNotGiveWay(t *testing.T) {
	t.Parallel()
	apiserver, controllers, claim := &appsv1.Deployment{}, &appsv1.Deployment{}, &corev1.PersistentVolumeClaim{}
	for name, into := range map[string]any{"deployment.yaml": apiserver, "controllers.yaml": controllers, "persistentvolumeclaim.yaml": claim} {
		content, err := os.ReadFile(filepath.Join(deployBase, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(content, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, deployment := range []*appsv1.Deployment{apiserver, controllers} {
		if got := deployment.Spec.Template.Spec.PriorityClassName; got != "system-cluster-critical" {
			t.Errorf("%s has the priority class %q; balloons have 1000000000, and only those of the system have more", deployment.Name, got)
		}
	}
	if diff := cmp.Diff([]corev1.PersistentVolumeAccessMode{"ReadWriteOncePod"}, claim.Spec.AccessModes); diff != "" {
		t.Errorf("access modes of the claim (-want,+got):\n%s", diff)
	}
}

// TestTheControllersFitTheRegistration checks the same for the Deployment of the controllers.
func TestTheControllersFitTheRegistration(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(deployBase, "controllers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict(content, deployment); err != nil {
		t.Fatal(err)
	}
	r := install.New()
	container := deployment.Spec.Template.Spec.Containers[0]
	type summary struct {
		Namespace, ServiceAccount string
		Selector                  map[string]string
		Port                      int32
		Replicas                  int32
	}
	want := summary{r.Service.Namespace, r.Service.Name, map[string]string{"app.kubernetes.io/name": "annex-controllers"}, controllermanager.DefaultPort, 2}
	got := summary{
		deployment.Namespace, deployment.Spec.Template.Spec.ServiceAccountName, deployment.Spec.Selector.MatchLabels,
		container.Ports[0].ContainerPort, *deployment.Spec.Replicas,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deployment (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff(deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels); diff != "" {
		t.Errorf("labels of the pods (-want,+got):\n%s", diff)
	}
	if err := newControllers().ParseFlags(container.Args[1:]); err != nil {
		t.Error(err)
	}
}

func TestRegisterBadInput(t *testing.T) {
	t.Parallel()
	notACertificate := writeFile(t, "hello", t.TempDir(), "ca.crt")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"unknown format":           {[]string{"register", "--dry-run", "-o", "json"}, "--output json is not known; the only format is yaml"},
		"address as external name": {[]string{"register", "--dry-run", "-o", "yaml", "--external-name=127.0.0.1"}, "--external-name 127.0.0.1 is an address; give a DNS name, such as localhost"},
		"port without a host":      {[]string{"register", "--dry-run", "-o", "yaml", "--service-port=6444"}, "--service-port is for --external-name only"},
		"port out of range":        {[]string{"register", "--dry-run", "-o", "yaml", "--external-name=localhost", "--service-port=70000"}, "--service-port 70000 is not a port"},
		"bad namespace":            {[]string{"unregister", "--namespace=A"}, `--namespace "A" is not the name of a namespace`},
		"no certificate":           {[]string{"register", "--dry-run", "-o", "yaml", "--ca-file=" + notACertificate}, "--ca-file " + notACertificate + " cannot be used"},
		"no kubeconfig":            {[]string{"register", "--kubeconfig=/nowhere"}, "--kubeconfig /nowhere cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), tc.args, &stdout, &stderr); code != 1 {
				t.Errorf("exit code is %d, want 1", code)
			}
			checkOneClearLine(t, stderr.String(), tc.want)
			if stdout.Len() > 0 {
				t.Errorf("stdout is not empty:\n%s", stdout.String())
			}
		})
	}
}
