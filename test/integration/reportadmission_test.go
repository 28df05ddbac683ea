// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	features "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/test/framework"
)

// TestPoliciesOfTheHostDecideOverWhatReportsChange has policies about Features, and a reporter whose reports would create and change some.
func TestPoliciesOfTheHostDecideOverWhatReportsChange(t *testing.T) {
	t.Parallel()
	const namespace = "reported"
	server := framework.SharedServer()
	greeter := reporterIn(t, server, namespace)
	client := server.Annex.FeaturesV1alpha1().Features(namespace)
	var guarded *features.Feature
	for _, name := range []string{"Probe", "Guarded"} {
		var err error
		if guarded, err = client.Create(t.Context(), &features.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, rule := range map[string]struct{ resource, validation, message string }{
		"no-refused": {"features", "object.metadata.name != 'Refused' || request.userInfo.username != 'greeter'", "'no Refused by ' + request.userInfo.username"},
		"no-use-of-guarded": {"features/status", "object.metadata.name != 'Guarded' || request.userInfo.username != 'greeter' || !has(object.status.uses)",
			"string(size(object.status.uses)) + ' use by ' + request.userInfo.username + ' at ' + request.operation + ' of ' + request.subResource"},
	} {
		admissiontest.Policy(t, server.Kubernetes, name, admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: admissiontest.Constraints("features.k8s.io", "*", rule.resource, namespace),
			Validations:      []admissionregistrationv1.Validation{{Expression: rule.validation, MessageExpression: rule.message}},
		}, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}})
	}
	for name, rule := range map[string]struct{ resource, condition, patch string }{
		"labels": {"features", "request.operation == 'CREATE'", `[JSONPatch{op: "add", path: "/metadata/labels", value: {"by": request.userInfo.username}}]`},
		"uses":   {"features/status", "has(object.status.uses)", `[JSONPatch{op: "replace", path: "/status/uses/0/reporter", value: "somebody"}]`},
	} {
		admissiontest.MutatingPolicy(t, server.Kubernetes, name, admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints:   admissiontest.Constraints("features.k8s.io", "*", rule.resource, namespace),
			MatchConditions:    []admissionregistrationv1.MatchCondition{{Name: "wanted", Expression: rule.condition}},
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: rule.patch},
			}},
		}, admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{})
	}
	send := func(as versioned.Interface, dryRun []string, names ...string) error {
		report := &features.FeatureReport{Spec: features.FeatureReportSpec{Component: "greeter", Version: "v1", Instance: "one"}}
		for _, name := range names {
			report.Spec.Features = append(report.Spec.Features, features.ReportedFeature{Name: name, Value: features.ValueEnabled})
		}
		_, err := as.FeaturesV1alpha1().FeatureReports(namespace).Create(t.Context(), report, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	refused := func(err error, want string) error {
		if status := apierrors.APIStatus(nil); !errors.As(err, &status) || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("got %w, want it refused with %q", err, want)
		}
		return nil
	}
	// A Feature shows that the mutating policies are at work; a dry run changes nothing until the others are.
	all := []string{metav1.DryRunAll}
	framework.Eventually(t, patience, func() error {
		made, err := client.Create(t.Context(), &features.Feature{ObjectMeta: metav1.ObjectMeta{Name: "Trial"}}, metav1.CreateOptions{DryRun: all})
		if err == nil && made.Labels["by"] == "" {
			err = fmt.Errorf("the policy has not labelled %+v", made.ObjectMeta)
		}
		return err
	})
	framework.Eventually(t, patience, func() error {
		probe, err := client.Get(t.Context(), "Probe", metav1.GetOptions{})
		if err == nil {
			probe.Status.Uses = []features.Use{{Component: "probe", Version: "v1", Value: features.ValueEnabled, Reporter: "me"}}
			probe, err = client.UpdateStatus(t.Context(), probe, metav1.UpdateOptions{DryRun: all})
		}
		if err == nil && probe.Status.Uses[0].Reporter != "somebody" {
			err = fmt.Errorf("the policy has not changed %+v", probe.Status.Uses)
		}
		return err
	})
	const create, update = "no Refused by greeter", "1 use by greeter at UPDATE of status"
	framework.Eventually(t, patience, func() error { return refused(send(greeter, all, "Refused"), create) })
	framework.Eventually(t, patience, func() error { return refused(send(greeter, all, "Guarded"), update) })

	if err := refused(send(greeter, nil, "Refused", "Welcome"), create); err != nil {
		t.Error(err)
	}
	if made, err := client.Get(t.Context(), "Refused", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a report created what a policy refuses: %+v, %v", made, err)
	}
	welcome, err := client.Get(t.Context(), "Welcome", metav1.GetOptions{})
	if err != nil || len(welcome.Status.Uses) != 1 {
		t.Fatalf("what no policy refuses: %+v, %v; want it created, with its use", welcome, err)
	}
	if by, reporter := welcome.Labels["by"], welcome.Status.Uses[0].Reporter; by != "greeter" || reporter != "somebody" {
		t.Errorf("a report's Feature has the label by=%q, and its use is by %q; want what the mutating policies make of them: greeter, somebody", by, reporter)
	}
	if err := refused(send(greeter, nil, "Guarded"), update); err != nil {
		t.Error(err)
	}
	if now, err := client.Get(t.Context(), "Guarded", metav1.GetOptions{}); err != nil || now.ResourceVersion != guarded.ResourceVersion {
		t.Errorf("a report changed what a policy refuses: %+v, %v", now, err)
	}
	if err := send(server.Annex, nil, "Guarded", "Refused"); err != nil {
		t.Errorf("a report of another user, whom the policies let: %v", err)
	}
}

// reporterIn returns a client of the user greeter, who has the role annex-feature-reporter in a new namespace, once that is known.
func reporterIn(t *testing.T, server *framework.Server, namespace string) *versioned.Clientset {
	t.Helper()
	if _, err := server.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := server.Kubernetes.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
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
	framework.Eventually(t, patience, func() error {
		_, err := reporter.FeaturesV1alpha1().Features(namespace).List(t.Context(), metav1.ListOptions{})
		return err
	})
	return reporter
}
