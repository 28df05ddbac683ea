// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubectlfeature runs `kubectl feature` against a real server.
package kubectlfeature

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
)

const (
	root     = "../../.."
	patience = time.Minute
)

// plugin is the program, and the cluster that it works on.
type plugin struct {
	binary, kubeconfig string
	server             *framework.Server
}

func start(t *testing.T, configure ...func(*standalone.Options)) *plugin {
	t.Helper()
	binary, err := filepath.Abs(framework.Build(t, "kubectl-feature", root, "./cmd/kubectl-feature"))
	if err != nil {
		t.Fatal(err)
	}
	server := framework.Start(t, append(configure, func(o *standalone.Options) {
		o.Extension.Lifecycle.Dynamic, o.Extension.Lifecycle.AnswerWindow = []string{"annex-system/*"}, time.Second
	})...)
	return &plugin{binary: binary, kubeconfig: server.Kubeconfig, server: server}
}

func (p *plugin) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, p.binary, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig, "KUBERNETES_SERVICE_HOST=")
	return command
}

// run returns what the program wrote to both streams, and its exit code.
func (p *plugin) run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := p.command(ctx, args...)
	var out, errOut bytes.Buffer
	command.Stdout, command.Stderr = &out, &errOut
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", args, err)
	}
	return out.String(), errOut.String(), command.ProcessState.ExitCode()
}

// want fails the test unless the program ends with the code, and each stream matches its pattern.
func (p *plugin) want(t *testing.T, code int, stdout, stderr string, args ...string) {
	t.Helper()
	out, errOut, got := p.run(t, args...)
	if got != code || !matches(stdout, out) || !matches(stderr, errOut) {
		t.Errorf("kubectl feature %s: exit code %d, want %d\nstdout, to match %s:\n%s\nstderr, to match %s:\n%s",
			strings.Join(args, " "), got, code, stdout, out, stderr, errOut)
	}
}

// matches is true for an empty pattern only if there is nothing.
func matches(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	return regexp.MustCompile(`(?ms)` + pattern).MatchString(text)
}

// namespace makes a namespace with the Features, whose status is written as their server would.
func (p *plugin) namespace(t *testing.T, name string, features map[string]v1alpha1.FeatureStatus) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := p.server.Kubernetes.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	for feature, status := range features {
		// The server keeps track of who owns which field from the first field on; an object without any has none.
		object := &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: feature, Labels: map[string]string{"test": "kubectl-feature"}}}
		if _, err := p.server.Annex.FeaturesV1alpha1().Features(name).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p.status(t, name, feature, func(s *v1alpha1.FeatureStatus) { *s = status })
	}
}

// status changes the status of a Feature as one that has seen the latest wish.
func (p *plugin) status(t *testing.T, namespace, name string, change func(*v1alpha1.FeatureStatus)) {
	t.Helper()
	features := p.server.Annex.FeaturesV1alpha1().Features(namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		feature, err := features.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&feature.Status)
		feature.Status.ObservedGeneration = feature.Generation
		_, err = features.UpdateStatus(t.Context(), feature, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
}

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
