// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/test/harness"
)

// TestFeatureReporterExample runs the example from its start, by way of a feature that is turned on, to Ctrl-C.
func TestFeatureReporterExample(t *testing.T) {
	t.Parallel()
	binary := harness.Example(t, root, "feature-reporter")
	server := harness.Start(t)
	program := &copyOf{command: exec.Command(binary, "--feature-gates=PoliteGreeting=false", "--instance=one")}
	program.command.Env = append(os.Environ(), "KUBECONFIG="+server.Kubeconfig)
	program.command.Stdout, program.command.Stderr = program, program
	if err := program.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.command.Process.Kill() })
	features := server.Annex.FeaturesV1alpha1().Features("default")
	leases := server.Kubernetes.CoordinationV1().Leases("default")
	reporters := metav1.ListOptions{LabelSelector: "features.k8s.io/component=feature-reporter"}

	wait := func(what string, condition func() (bool, any)) {
		t.Helper()
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		deadline := time.After(time.Minute)
		for {
			ok, saw := condition()
			if ok {
				return
			}
			select {
			case <-ticker.C:
			case <-deadline:
				t.Fatalf("%s: not within a minute; last seen: %v; the program said:\n%s", what, saw, program.String())
			}
		}
	}
	wait("the uses", func() (bool, any) {
		list, err := features.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		var uses []string
		for _, feature := range list.Items {
			for _, use := range feature.Status.Uses {
				uses = append(uses, fmt.Sprintf("%s %s by %s %s (%s)", feature.Name, use.Value, use.Component, use.Version, use.Reporter))
			}
		}
		got := strings.Join(uses, ", ")
		return got == "LoudGreeting Disabled by feature-reporter v1.0.0 (one), PoliteGreeting Disabled by feature-reporter v1.0.0 (one)", got
	})
	wait("the Lease", func() (bool, any) {
		list, err := leases.List(t.Context(), reporters)
		return err == nil && len(list.Items) == 1 && list.Items[0].Annotations["features.k8s.io/observed"] != "", list
	})

	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		feature, err := features.Get(t.Context(), "LoudGreeting", metav1.GetOptions{})
		if err != nil {
			return err
		}
		feature.Status.State = featuresv1alpha1.StateOn
		_, err = features.UpdateStatus(t.Context(), feature, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wait("a loud greeting", func() (bool, any) { return strings.Contains(program.String(), "hello!"), nil })
	if strings.Contains(program.String(), "good day") {
		t.Errorf("a gate that the command line turned off is on; the program said:\n%s", program.String())
	}

	if err := program.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := program.command.Wait(); err != nil {
		t.Errorf("the program ended with %v; it said:\n%s", err, program.String())
	}
	if list, err := leases.List(t.Context(), reporters); err != nil || len(list.Items) > 0 {
		t.Errorf("the Lease is left (%v): %v", err, list)
	}
}
