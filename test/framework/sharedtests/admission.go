// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package sharedtests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/server/install"
	"github.com/kube-annex/annex/test/framework/poll"
)

// effect is how soon webhooks and policies of a host are at work behind it.
const effect = time.Minute

// admission is what a host has configured for Annex's kinds, and both ways to write them.
type admission struct {
	host kubernetes.Interface
	// ways are through the host, and straight to the port of the extension.
	ways map[string]*versioned.Clientset
}

// Admission checks that policies and webhooks of the host hold for Annex's kinds, no matter which way they are written.
func Admission(t *testing.T, host, direct *rest.Config) {
	t.Helper()
	a := &admission{ways: map[string]*versioned.Clientset{}}
	var err error
	if a.host, err = kubernetes.NewForConfig(host); err != nil {
		t.Fatal(err)
	}
	for way, config := range map[string]*rest.Config{"through the host": host, "straight": direct} {
		if a.ways[way], err = versioned.NewForConfig(config); err != nil {
			t.Fatal(err)
		}
	}
	for name, check := range map[string]func(*testing.T){
		"webhooks": a.webhooks, "validating policies": a.validatingPolicies, "mutating policies": a.mutatingPolicies,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t)
		})
	}
}

// eachWay repeats a check until it holds, on each way.
func (a *admission) eachWay(t *testing.T, what string, check func(context.Context, *versioned.Clientset) error) {
	t.Helper()
	for way, client := range a.ways {
		poll.Eventually(t, effect, what+", "+way, func(ctx context.Context) error { return check(ctx, client) })
	}
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

func claim(name, value string) *multiclusterv1alpha1.ClusterClaim {
	return &multiclusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: multiclusterv1alpha1.ClusterClaimSpec{Value: value}}
}

func (a *admission) webhooks(t *testing.T) {
	hook := admissiontest.Start(t, func(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if strings.Contains(string(request.Object.Raw), "refuse-me") {
			return admissiontest.Deny("as was asked for")(request)
		}
		return admissiontest.Patch(`[{"op":"replace","path":"/spec/value","value":"changed by a webhook"}]`)(request)
	})
	down := admissiontest.Start(t, admissiontest.Allow)
	down.Stop()
	ours := []admissionregistrationv1.RuleWithOperations{admissiontest.Rule("multicluster.k8s.io", "*", "clusterclaims")}
	named := func(prefix string) []admissionregistrationv1.MatchCondition {
		return []admissionregistrationv1.MatchCondition{{Name: "named", Expression: fmt.Sprintf("object.metadata.name.startsWith('%s')", prefix)}}
	}
	admissiontest.Mutate(t, a.host, "annex-claims",
		admissionregistrationv1.MutatingWebhook{Name: "mutates.example.com", ClientConfig: hook.ByURL("/"), Rules: ours, MatchConditions: named("hooked")},
		admissionregistrationv1.MutatingWebhook{Name: "down.example.com", ClientConfig: down.ByURL("/"), Rules: ours, MatchConditions: named("down")},
		admissionregistrationv1.MutatingWebhook{Name: "ignored.example.com", ClientConfig: down.ByURL("/"), Rules: ours, MatchConditions: named("hooked"),
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore)},
	)
	a.eachWay(t, "a webhook changes a claim", func(ctx context.Context, client *versioned.Clientset) error {
		got, err := client.MulticlusterV1alpha1().ClusterClaims().Create(ctx, claim("hooked.example.com", "x"), dryRun)
		if err == nil && got.Spec.Value != "changed by a webhook" {
			err = fmt.Errorf("the value is %q", got.Spec.Value)
		}
		return err
	})
	a.eachWay(t, "a webhook refuses a claim", func(ctx context.Context, client *versioned.Clientset) error {
		_, err := client.MulticlusterV1alpha1().ClusterClaims().Create(ctx, claim("hooked.example.com", "refuse-me"), dryRun)
		return wantRefusal(err, "as was asked for")
	})
	a.eachWay(t, "a webhook that is down refuses a claim", func(ctx context.Context, client *versioned.Clientset) error {
		_, err := client.MulticlusterV1alpha1().ClusterClaims().Create(ctx, claim("down.example.com", "x"), dryRun)
		return wantRefusal(err, `failed calling webhook "down.example.com"`)
	})
	for _, review := range hook.Reviews() {
		if review.Kind.Group != "multicluster.k8s.io" || review.Kind.Kind != "ClusterClaim" || len(review.UserInfo.Groups) == 0 {
			t.Errorf("the webhook was asked %+v", review)
		}
	}
}

// validatingPolicies has one about Features whose parameter is a ConfigMap, which the host lets the extension read.
func (a *admission) validatingPolicies(t *testing.T) {
	const namespace = "admission-policies"
	made(t)(a.host.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"tier": "gold"}}}, metav1.CreateOptions{}))
	made(t)(a.host.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Data: map[string]string{"name": "Refused"}}, metav1.CreateOptions{}))
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "annex-reads-configmaps", Labels: map[string]string{install.ParametersLabel: "true"}},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}},
	}
	made(t)(a.host.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = a.host.RbacV1().ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{})
		_ = a.host.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	})
	admissiontest.Policy(t, a.host, "annex-features", admissionregistrationv1.ValidatingAdmissionPolicySpec{
		ParamKind:        &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
		MatchConstraints: admissiontest.Constraints("features.k8s.io", "*", "features", namespace),
		Validations: []admissionregistrationv1.Validation{{
			Expression:        "object.metadata.name != params.data.name",
			MessageExpression: "'no ' + params.data.name + ' in the tier ' + namespaceObject.metadata.labels.tier",
		}},
	}, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		ParamRef:          &admissionregistrationv1.ParamRef{Name: "refused", ParameterNotFoundAction: ptr.To(admissionregistrationv1.DenyAction)},
	})
	feature := func(name string) *featuresv1alpha1.Feature {
		return &featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	a.eachWay(t, "a policy refuses a Feature", func(ctx context.Context, client *versioned.Clientset) error {
		_, err := client.FeaturesV1alpha1().Features(namespace).Create(ctx, feature("Refused"), dryRun)
		return wantRefusal(err, "no Refused in the tier gold")
	})
	a.eachWay(t, "other Features are admitted", func(ctx context.Context, client *versioned.Clientset) error {
		_, err := client.FeaturesV1alpha1().Features(namespace).Create(ctx, feature("Admitted"), dryRun)
		return err
	})
	a.eachWay(t, "Features in other namespaces are admitted", func(ctx context.Context, client *versioned.Clientset) error {
		_, err := client.FeaturesV1alpha1().Features("default").Create(ctx, feature("Refused"), dryRun)
		return err
	})
}

func (a *admission) mutatingPolicies(t *testing.T) {
	admissiontest.MutatingPolicy(t, a.host, "annex-labels", admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints:   admissiontest.Constraints("multicluster.k8s.io", "*", "clusterclaims", ""),
		MatchConditions:    []admissionregistrationv1.MatchCondition{{Name: "named", Expression: "object.metadata.name == 'labelled.example.com'"}},
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		Mutations: []admissionregistrationv1.Mutation{
			{PatchType: admissionregistrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
				Expression: "Object{metadata: Object.metadata{labels: {'applied': 'yes'}}}"}},
			{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{
				Expression: `[JSONPatch{op: "add", path: "/metadata/labels/patched", value: "yes"}]`}},
		},
	}, admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{})
	a.eachWay(t, "a policy labels a claim", func(ctx context.Context, client *versioned.Clientset) error {
		got, err := client.MulticlusterV1alpha1().ClusterClaims().Create(ctx, claim("labelled.example.com", "x"), dryRun)
		if err == nil && (got.Labels["applied"] != "yes" || got.Labels["patched"] != "yes") {
			err = fmt.Errorf("the labels are %v", got.Labels)
		}
		return err
	})
}

func wantRefusal(err error, text string) error {
	status := apierrors.APIStatus(nil)
	if errors.As(err, &status) && strings.Contains(err.Error(), text) {
		return nil
	}
	return fmt.Errorf("got %w, want it refused with %q", err, text)
}

func made(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}
