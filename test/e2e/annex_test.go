// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	// patience is how long anything may take on a busy machine.
	patience = time.Minute

	// user is who annex is in the cluster.
	user = "system:annex:apiserver"
)

var apiServices = []string{"v1alpha1.features.k8s.io", "v1alpha1.multicluster.k8s.io", "v1alpha1.node.k8s.io"}

// annex is `annex apiserver` as a process of its own, registered with the host.
type annex struct {
	args    []string
	logFile string
	process *cluster.Process
	client  *versioned.Clientset
}

// startAnnex starts annex with an empty store, registers it and waits until the host has found it. It is stopped when the
// test ends, and stays registered.
func startAnnex(t *testing.T) *annex {
	t.Helper()
	a := registerAnnex(t, embedded(t), ownCertificates)
	a.start(t)
	a.waitAvailable(t)
	return a
}

// embedded is the flag for an etcd inside annex.
func embedded(t *testing.T) string { return "--data-dir=" + filepath.Join(t.TempDir(), "data") }

// certificates returns the flags that say who makes the serving certificates, for `annex apiserver` and for `annex register`.
type certificates func(t *testing.T) (server, registration []string)

// ownCertificates are those that annex makes and publishes by itself.
func ownCertificates(*testing.T) (server, registration []string) { return nil, nil }

// givenCertificates come from an authority of the user's.
func givenCertificates(t *testing.T) (server, registration []string) {
	t.Helper()
	serving, caFile := servingCertificate(t, t.TempDir())
	return []string{"--tls-cert-file=" + serving.CertFile, "--tls-private-key-file=" + serving.KeyFile}, []string{"--ca-file=" + caFile}
}

// servingCertificate makes what the host expects of the service, and returns the authority's file with it.
func servingCertificate(t *testing.T, dir string) (serving pki.Pair, caFile string) {
	t.Helper()
	directory, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := directory.Authority("ca", "users-ca")
	if err != nil {
		t.Fatal(err)
	}
	if serving, err = authority.Serving("annex", "annex-apiserver.annex-system.svc"); err != nil {
		t.Fatal(err)
	}
	return serving, authority.CertFile()
}

// registerAnnex prepares all that start needs.
func registerAnnex(t *testing.T, storage string, certificates certificates) *annex {
	t.Helper()
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := host.Identity(user)
	if err != nil {
		t.Fatal(err)
	}
	serverCertificates, registrationCertificates := certificates(t)
	register(t, port, registrationCertificates...)
	a := &annex{logFile: filepath.Join(t.TempDir(), "annex.log")}
	a.args = append([]string{
		"apiserver",
		"--kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--dynamic-features=annex-system/*",
		"--feature-answer-window=1s",
		storage,
	}, serverCertificates...)
	if a.client, err = versioned.NewForConfig(host.Config); err != nil {
		t.Fatal(err)
	}
	return a
}

// register tells the cluster that annex is at a port. Of an earlier registration it makes only the APIServices anew: their status would
// still speak of the server before.
func register(t *testing.T, port int, flags ...string) {
	t.Helper()
	for _, name := range apiServices {
		if err := apiServicesOf(t).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	// Processes that were killed leave Leases behind, for which features that are turned off would wait.
	for _, label := range []string{"features.k8s.io/component", "features.k8s.io/announcer"} {
		err := host.Kubernetes.CoordinationV1().Leases("annex-system").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: label})
		if err != nil {
			t.Fatal(err)
		}
	}
	mustAnnex(t, append([]string{
		"register",
		"--kubeconfig=" + host.Kubeconfig,
		"--user=" + user,
		"--external-name=localhost",
		"--service-port=" + strconv.Itoa(port),
	}, flags...)...)
}

// start runs the process until the test ends, or stop is called.
func (a *annex) start(t *testing.T) {
	t.Helper()
	process, err := cluster.StartProcess("annex", a.logFile, framework.Annex(t, root), a.args...)
	if err != nil {
		t.Fatal(err)
	}
	a.process = process
	t.Cleanup(func() {
		a.stop(t)
		if t.Failed() {
			t.Logf("the end of annex's log:\n%s", process.Tail(50))
		}
	})
}

func (a *annex) stop(t *testing.T) {
	t.Helper()
	if err := a.process.Stop(); err != nil {
		t.Error(err)
	}
}

// waitAvailable waits until the host serves all three groups.
func (a *annex) waitAvailable(t *testing.T) {
	t.Helper()
	poll.Eventually(t, patience, "the APIServices become available", func(ctx context.Context) error {
		for _, name := range apiServices {
			service, err := apiServicesOf(t).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := available(service); err != nil {
				return err
			}
		}
		// The proxy follows what the APIServices say with a delay, each group by itself.
		_, featuresErr := a.client.FeaturesV1alpha1().Features("").List(ctx, metav1.ListOptions{})
		_, claimsErr := a.client.MulticlusterV1alpha1().ClusterClaims().List(ctx, metav1.ListOptions{})
		_, balloonsErr := a.client.NodeV1alpha1().NodeBalloons().List(ctx, metav1.ListOptions{})
		return errors.Join(featuresErr, claimsErr, balloonsErr)
	})
}

func available(service *apiregistrationv1.APIService) error {
	for _, condition := range service.Status.Conditions {
		if condition.Type == apiregistrationv1.Available && condition.Status == apiregistrationv1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("APIService %s: %v", service.Name, service.Status.Conditions)
}

// waitForLog waits until annex has said something.
func (a *annex) waitForLog(t *testing.T, text string) {
	t.Helper()
	poll.Eventually(t, patience, "annex says "+strconv.Quote(text), func(context.Context) error {
		if !strings.Contains(a.process.Log(), text) {
			return errors.New("it did not")
		}
		return nil
	})
}
