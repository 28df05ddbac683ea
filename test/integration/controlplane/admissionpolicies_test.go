// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/admissiontest"
)

func TestValidatingPolicies(t *testing.T) {
	t.Parallel()
	auditLog, adjust := audited(t, "Metadata")
	h := startHost(t, adjust)
	createWidgetDefinition(t, h.Admin())
	admit(t, h, map[string]func(*testing.T, *admitted){
		"refuse, warn and audit":            func(t *testing.T, a *admitted) { policyActs(t, a, auditLog) },
		"say why":                           policySaysWhy,
		"know the namespace and the user":   policyKnowsNamespaceAndUser,
		"are set by ConfigMaps":             policyHasParameters,
		"are set by custom resources":       policyHasCustomParameters,
		"see custom resources":              policySeesCustomResources,
		"act as told when they fail to run": policyFails,
		"are not asked about policies":      policyIsNotAskedAboutPolicies,
	})
}

var denies = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}

// policy is about ConfigMaps in the namespace of the test.
func (a *admitted) policy(expressions ...string) admissionregistrationv1.ValidatingAdmissionPolicySpec {
	spec := admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: admissiontest.Constraints("", "v1", "configmaps", a.namespace)}
	for _, expression := range expressions {
		spec.Validations = append(spec.Validations, admissionregistrationv1.Validation{Expression: expression})
	}
	return spec
}

// refused waits until a ConfigMap is refused with a text.
func (a *admitted) refused(t *testing.T, name, text string) {
	t.Helper()
	eventually(t, func() error {
		_, err := a.configMap(t, name, dryRun)
		if err == nil || !strings.Contains(err.Error(), text) {
			return fmt.Errorf("%s: got %v, want it refused with %q", name, err, text) //nolint:errorlint // it may be nil
		}
		return nil
	})
}

func policyActs(t *testing.T, a *admitted, auditLog string) {
	spec := a.policy("!object.metadata.name.startsWith('bad')")
	for name, actions := range map[string][]admissionregistrationv1.ValidationAction{
		"denies": denies, "warns-and-audits": {admissionregistrationv1.Warn, admissionregistrationv1.Audit},
	} {
		mine := *spec.DeepCopy()
		mine.Validations[0].Message = name
		admissiontest.Policy(t, a.client, name+"-"+a.namespace, mine, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			ValidationActions: actions, MatchResources: &admissionregistrationv1.MatchResources{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{name: "yes"}}},
		})
	}
	config, heard := a.Admin(), &heardWarnings{}
	config.WarningHandler = heard
	a.client = core(t, config)
	eventually(t, func() error {
		_, err := a.configMap(t, "bad", dryRun, "denies")
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "denied request: denies") {
			return fmt.Errorf("got %v, want 422", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	eventually(t, func() error {
		if _, err := a.configMap(t, "bad", dryRun, "warns-and-audits"); err != nil {
			return err
		}
		if got := heard.take(); !strings.Contains(got, "Validation failed for ValidatingAdmissionPolicy 'warns-and-audits-"+a.namespace+"'") || !strings.HasSuffix(got, ": warns-and-audits") {
			return fmt.Errorf("the warning is %q", got)
		}
		return nil
	})
	if _, err := a.configMap(t, "good", dryRun, "denies", "warns-and-audits"); err != nil || heard.take() != "" {
		t.Errorf("what is valid: got %v, and a warning", err)
	}
	eventually(t, func() error {
		log, err := os.ReadFile(auditLog)
		if err == nil && !strings.Contains(string(log), "validation.policy.admission.k8s.io/validation_failure") {
			err = errors.New("the failure is not in the audit log")
		}
		return err
	})
}

func policySaysWhy(t *testing.T, a *admitted) {
	spec := a.policy("!object.metadata.name.startsWith('bad')")
	spec.Variables = []admissionregistrationv1.Variable{{Name: "name", Expression: "object.metadata.name"}}
	spec.Validations[0].MessageExpression = "'the name ' + variables.name + ' is not allowed'"
	spec.Validations[0].Reason = ptr.To(metav1.StatusReasonForbidden)
	admissiontest.Policy(t, a.client, "says-why", spec, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: denies})
	a.refused(t, "bad-name", "the name bad-name is not allowed")
	if _, err := a.configMap(t, "bad", dryRun); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want the reason that the policy gives", err)
	}
}

func policyKnowsNamespaceAndUser(t *testing.T, a *admitted) {
	a.allow(t, "someone", "create", "", "configmaps")
	a.allow(t, "someone", "bend", "", "rules")
	spec := a.policy("namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == request.namespace",
		"object.metadata.name != 'by-someone' || request.userInfo.username == 'someone'",
		"authorizer.group('').resource('rules').namespace(request.namespace).check('bend').allowed()")
	spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "named", Expression: "object.metadata.name.startsWith('by-')"}}
	admissiontest.Policy(t, a.client, "knows", spec, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: denies})
	a.refused(t, "by-someone", "userInfo.username")
	if _, err := a.configMap(t, "by-anyone", dryRun); err != nil {
		t.Errorf("by an administrator: %v", err)
	}
	a.client = core(t, a.As("someone"))
	eventually(t, func() error {
		_, err := a.configMap(t, "by-someone", dryRun)
		return err
	})
	a.allow(t, "another", "create", "", "configmaps")
	a.client = core(t, a.As("another"))
	a.refused(t, "by-another", "check('bend')")
	if _, err := a.configMap(t, "meets-no-condition", dryRun); err != nil {
		t.Errorf("what meets no condition: %v", err)
	}
}

func policyHasParameters(t *testing.T, a *admitted) {
	spec := a.policy("!(object.metadata.name in params.data)")
	spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "no-parameter", Expression: "!object.metadata.name.startsWith('params')"}}
	admissiontest.Policy(t, a.client, "parameters", spec, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		ValidationActions: denies, ParamRef: &admissionregistrationv1.ParamRef{Name: "params", Namespace: a.namespace, ParameterNotFoundAction: ptr.To(admissionregistrationv1.DenyAction)},
	})
	// Denying what lacks its parameter comes before conditions, so the ConfigMap is made elsewhere, and the binding follows it.
	a.refused(t, "anything", "no params found for policy binding with `Deny` parameterNotFoundAction")
	elsewhere := must[*corev1.Namespace](t)(a.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "params-"}}, metav1.CreateOptions{}))
	params := a.client.CoreV1().ConfigMaps(elsewhere.Name)
	must[*corev1.ConfigMap](t)(params.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "params"}, Data: map[string]string{"bad": ""}}, metav1.CreateOptions{}))
	bindings := a.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	must[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t)(bindings.Patch(t.Context(), "parameters", "application/merge-patch+json",
		[]byte(fmt.Sprintf(`{"spec":{"paramRef":{"namespace":%q}}}`, elsewhere.Name)), metav1.PatchOptions{}))
	a.refused(t, "bad", "failed expression")
	if _, err := a.configMap(t, "anything", dryRun); err != nil {
		t.Errorf("what the parameter allows: %v", err)
	}
	must[*corev1.ConfigMap](t)(params.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "params"}, Data: map[string]string{"anything": ""}}, metav1.UpdateOptions{}))
	a.refused(t, "anything", "failed expression")
	// A policy that comes after the last one with such parameters went has a fresh look at them.
	if err := bindings.Delete(t.Context(), "parameters", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := a.configMap(t, "anything", dryRun)
		return err
	})
	must[*corev1.ConfigMap](t)(params.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "params"}, Data: map[string]string{"changed": ""}}, metav1.UpdateOptions{}))
	must[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t)(bindings.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "parameters"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "parameters", ValidationActions: denies,
			ParamRef: &admissionregistrationv1.ParamRef{Name: "params", Namespace: elsewhere.Name, ParameterNotFoundAction: ptr.To(admissionregistrationv1.AllowAction)}},
	}, metav1.CreateOptions{}))
	a.refused(t, "changed", "failed expression")
	if _, err := a.configMap(t, "anything", dryRun); err != nil {
		t.Errorf("what the changed parameter allows: %v", err)
	}
	if err := params.Delete(t.Context(), "params", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := a.configMap(t, "changed", dryRun) // a parameter that is missing allows all
		return err
	})
}

func policyHasCustomParameters(t *testing.T, a *admitted) {
	objects := anything(t, a.Admin()).Resource(widgets).Namespace(a.namespace)
	eventually(t, func() error {
		_, err := objects.Create(t.Context(), widget("limit"), metav1.CreateOptions{})
		return err
	})
	spec := a.policy("object.?data.orValue({}).size() < params.spec.size")
	spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "example.com/v1", Kind: "Widget"}
	admissiontest.Policy(t, a.client, "custom-parameters", spec, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		ValidationActions: denies, ParamRef: &admissionregistrationv1.ParamRef{Name: "limit", ParameterNotFoundAction: ptr.To(admissionregistrationv1.DenyAction)},
	})
	eventually(t, func() error {
		_, err := a.client.CoreV1().ConfigMaps(a.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"a": "b"}}, dryRun)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "params.spec.size") {
			return fmt.Errorf("got %v, want 422", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	if _, err := a.configMap(t, "small", dryRun); err != nil {
		t.Errorf("what is below the limit: %v", err)
	}
}

func policySeesCustomResources(t *testing.T, a *admitted) {
	spec := a.policy("object.spec.size < 5 && (request.operation == 'CREATE' || oldObject.spec.size <= object.spec.size)")
	spec.MatchConstraints = admissiontest.Constraints(widgets.Group, "*", "widgets", a.namespace)
	admissiontest.Policy(t, a.client, "custom-resources", spec, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: denies})
	objects := anything(t, a.Admin()).Resource(widgets).Namespace(a.namespace)
	large := widget("large")
	_ = unstructured.SetNestedField(large.Object, int64(5), "spec", "size")
	eventually(t, func() error {
		if _, err := objects.Create(t.Context(), large, dryRun); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "object.spec.size") {
			return fmt.Errorf("got %v, want 422", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	if _, err := objects.Create(t.Context(), widget("small"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Patch(t.Context(), "small", "application/merge-patch+json", []byte(`{"spec":{"size":0}}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an update that the policy refuses: got %v, want 422", err)
	}
}

// policyFails has policies whose expressions end with an error, and whose kind of parameters does not exist.
func policyFails(t *testing.T, a *admitted) {
	key, kind := a.policy("object.data['missing'] == 'x'"), a.policy("params.spec.x == 1")
	kind.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "nothing.example.com/v1", Kind: "Nothing"}
	for name, tc := range map[string]struct {
		spec admissionregistrationv1.ValidatingAdmissionPolicySpec
		want string
	}{
		"no-such-key":  {key, "no such key"},
		"no-such-kind": {kind, "failed to find resource referenced by paramKind"},
	} {
		for _, failure := range []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail, admissionregistrationv1.Ignore} {
			spec, full := *tc.spec.DeepCopy(), name+"-"+strings.ToLower(string(failure))
			spec.FailurePolicy = &failure
			spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{full: "yes"}}
			admissiontest.Policy(t, a.client, full, spec, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				ValidationActions: denies, ParamRef: &admissionregistrationv1.ParamRef{Name: "x", ParameterNotFoundAction: ptr.To(admissionregistrationv1.DenyAction)},
			})
		}
		eventually(t, func() error {
			if _, err := a.configMap(t, "probe", dryRun, name+"-fail"); err == nil || !strings.Contains(err.Error(), tc.want) {
				return fmt.Errorf("%s: got %v, want it refused with %q", name, err, tc.want) //nolint:errorlint // it may be nil
			}
			return nil
		})
		if _, err := a.configMap(t, "probe", dryRun, name+"-ignore"); err != nil {
			t.Errorf("%s with failurePolicy Ignore: %v", name, err)
		}
	}
}

func policyIsNotAskedAboutPolicies(t *testing.T, a *admitted) {
	spec := a.policy("false")
	spec.MatchConstraints.NamespaceSelector = nil
	spec.MatchConstraints.ResourceRules = append(spec.MatchConstraints.ResourceRules, admissiontest.Constraints("admissionregistration.k8s.io", "*", "*", "").ResourceRules...)
	spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "of-this-test", Expression: "object.metadata.name.startsWith('refused-by-itself')"}}
	admissiontest.Policy(t, a.client, "refused-by-itself", spec, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: denies})
	a.refused(t, "refused-by-itself", "failed expression")
	admissiontest.Policy(t, a.client, "refused-by-itself-2", spec, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: denies})
	// As in a kube-apiserver, policies do see webhooks.
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "refused-by-itself"}}
	if _, err := a.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), configuration, dryRun); !apierrors.IsInvalid(err) {
		t.Errorf("a webhook that the policy refuses: got %v, want 422", err)
	}
	if err := a.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(context.WithoutCancel(t.Context()), "refused-by-itself", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting the policy's binding: %v", err)
	}
}
