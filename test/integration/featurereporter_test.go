// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestFeatureReporterExample runs the example from its start, by way of a feature that is turned on, to Ctrl-C.
func TestFeatureReporterExample(t *testing.T) {
	t.Parallel()
	binary := framework.Example(t, root, "feature-reporter")
	server := framework.SharedServer()
	program := framework.StartProgram(t, server.Kubeconfig, binary, "--feature-gates=PoliteGreeting=false", "--instance=one")
	features := server.Annex.FeaturesV1alpha1().Features("default")
	leases := server.Kubernetes.CoordinationV1().Leases("annex-system")
	reporters := metav1.ListOptions{LabelSelector: "features.k8s.io/component=feature-reporter,features.k8s.io/namespace=default"}

	wait := func(what string, condition func() (bool, any)) {
		t.Helper()
		poll.Eventually(t, time.Minute, what, func(context.Context) error {
			ok, observed := condition()
			return poll.Want(ok, fmt.Sprintf("%v; the program wrote:\n%s", observed, program.Log()))
		})
	}
	wait("the uses are reported", func() (bool, any) {
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
	wait("the Lease is gone", func() (bool, any) {
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
	wait("the program greets loudly", func() (bool, any) { return strings.Contains(program.Log(), "hello!"), nil })
	if strings.Contains(program.Log(), "good day") {
		t.Errorf("a gate that the command line turned off is on; the program said:\n%s", program.Log())
	}

	if err := program.Interrupt(); err != nil {
		t.Error(err)
	}
	if list, err := leases.List(t.Context(), reporters); err != nil || len(list.Items) > 0 {
		t.Errorf("the Lease is left (%v): %v", err, list)
	}
}

// TestAReporterNeedsNoRightOnLeases has a user with the role annex-feature-reporter report, and try what would let it speak for others.
func TestAReporterNeedsNoRightOnLeases(t *testing.T) {
	t.Parallel()
	server := framework.Start(t)
	_, err := server.Kubernetes.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reporter"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "annex-feature-reporter"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "greeter"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "greeter", Groups: []string{"system:authenticated"}}
	reporter, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	host, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	report := &featuresv1alpha1.FeatureReport{Spec: featuresv1alpha1.FeatureReportSpec{
		Component: "greeter", Version: "v1", Instance: "one", Observed: "7",
		Features: []featuresv1alpha1.ReportedFeature{{Name: "Greeting", Value: featuresv1alpha1.ValueEnabled}},
	}}
	send := func() {
		t.Helper()
		poll.Eventually(t, time.Minute, "a user with the role annex-feature-reporter may report", func(ctx context.Context) error {
			_, err := reporter.FeaturesV1alpha1().FeatureReports("default").Create(ctx, report, metav1.CreateOptions{})
			return err
		})
	}
	signs := func() []coordinationv1.Lease {
		t.Helper()
		list, err := server.Kubernetes.CoordinationV1().Leases("annex-system").List(t.Context(), metav1.ListOptions{LabelSelector: "features.k8s.io/component=greeter"})
		if err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	send()
	found := signs()
	if len(found) != 1 || found[0].Annotations["features.k8s.io/observed"] != "7" || found[0].Annotations["features.k8s.io/user"] != "greeter" {
		t.Fatalf("the sign of life of the reporter: %+v, want one Lease with what it has observed", found)
	}
	for _, namespace := range []string{"default", "annex-system"} {
		mayDoWithLeases(t, host, namespace, &found[0])
	}
	report.Spec.Features, report.Spec.Stopping = []featuresv1alpha1.ReportedFeature{}, true
	send()
	if found := signs(); len(found) > 0 {
		t.Errorf("after the last report the process counts as running: %+v", found)
	}
}
