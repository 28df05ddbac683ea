// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/registry/native/admissionregistration"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

// inertMatch matches only what nobody serves.
func inertMatch() map[string]any {
	return map[string]any{"resourceRules": []any{map[string]any{
		"apiGroups": []any{"policies.annex.test"}, "apiVersions": []any{"*"}, "operations": []any{"CREATE"}, "resources": []any{"*"},
	}}}
}

func validatingPolicySpec(expression string) map[string]any {
	return map[string]any{"matchConstraints": inertMatch(), "validations": []any{map[string]any{"expression": expression}}}
}

func mutatingPolicySpec(expression string) map[string]any {
	return map[string]any{
		"matchConstraints": inertMatch(), "reinvocationPolicy": "Never",
		"mutations": []any{map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": expression}}},
	}
}

func TestValidatingAdmissionPolicy(t *testing.T) {
	t.Parallel()
	resourcetest.Run(t, start(t, admissionregistration.GroupVersion, admissionregistration.Kinds(nil, nil)), resourcetest.Case{
		Resource: admissionregistration.GroupVersion.WithResource("validatingadmissionpolicies"), Kind: "ValidatingAdmissionPolicy",
		Names:       []string{"policy-a", "policy-b", "policy-c"},
		Spec:        validatingPolicySpec("object.spec.size < 5"),
		ChangedSpec: validatingPolicySpec("object.spec.size < 6"),
		Status: map[string]any{"observedGeneration": int64(1), "typeChecking": map[string]any{
			"expressionWarnings": []any{map[string]any{"fieldRef": "spec.validations[0].expression", "warning": "no such field"}},
		}},
		InvalidSpec:    validatingPolicySpec("object.spec.size < "),
		InvalidMessage: "spec.validations[0].expression: Invalid value: \"object.spec.size < \": compilation failed: ERROR: <input>:1:20: Syntax error",
		Columns:        []string{"Name", "Validations", "ParamKind", "Age"},
	})
}

func TestValidatingAdmissionPolicyBinding(t *testing.T) {
	t.Parallel()
	resourcetest.Run(t, start(t, admissionregistration.GroupVersion, admissionregistration.Kinds(nil, nil)), resourcetest.Case{
		Resource: admissionregistration.GroupVersion.WithResource("validatingadmissionpolicybindings"), Kind: "ValidatingAdmissionPolicyBinding",
		Names:          []string{"binding-a", "binding-b", "binding-c"},
		Spec:           map[string]any{"policyName": "policy", "validationActions": []any{"Deny", "Audit"}, "matchResources": inertMatch()},
		ChangedSpec:    map[string]any{"policyName": "policy", "validationActions": []any{"Warn"}, "matchResources": inertMatch()},
		InvalidSpec:    map[string]any{"policyName": "policy", "validationActions": []any{"Deny", "Warn"}},
		InvalidMessage: "must not contain both Deny and Warn",
		Columns:        []string{"Name", "PolicyName", "ParamRef", "Age"},
	})
}

func TestMutatingAdmissionPolicy(t *testing.T) {
	t.Parallel()
	resourcetest.Run(t, start(t, admissionregistration.GroupVersion, admissionregistration.Kinds(nil, nil)), resourcetest.Case{
		Resource: admissionregistration.GroupVersion.WithResource("mutatingadmissionpolicies"), Kind: "MutatingAdmissionPolicy",
		Names:          []string{"policy-a", "policy-b", "policy-c"},
		Spec:           mutatingPolicySpec("Object{metadata: Object.metadata{labels: {'a': 'b'}}}"),
		ChangedSpec:    mutatingPolicySpec("Object{metadata: Object.metadata{labels: {'a': 'c'}}}"),
		InvalidSpec:    mutatingPolicySpec("[JSONPatch{op: 'remove', path: '/spec'}]"),
		InvalidMessage: "spec.mutations[0].applyConfiguration.expression: Invalid value: ",
		Columns:        []string{"Name", "Mutations", "ParamKind", "Age"},
	})
}

func TestMutatingAdmissionPolicyBinding(t *testing.T) {
	t.Parallel()
	named := map[string]any{"name": "parameters", "namespace": "default", "parameterNotFoundAction": "Deny"}
	resourcetest.Run(t, start(t, admissionregistration.GroupVersion, admissionregistration.Kinds(nil, nil)), resourcetest.Case{
		Resource: admissionregistration.GroupVersion.WithResource("mutatingadmissionpolicybindings"), Kind: "MutatingAdmissionPolicyBinding",
		Names:          []string{"binding-a", "binding-b", "binding-c"},
		Spec:           map[string]any{"policyName": "policy", "paramRef": named, "matchResources": inertMatch()},
		ChangedSpec:    map[string]any{"policyName": "policy"},
		InvalidSpec:    map[string]any{"policyName": "policy", "paramRef": map[string]any{"parameterNotFoundAction": "Deny"}},
		InvalidMessage: "one of name or selector must be specified",
		Columns:        []string{"Name", "PolicyName", "ParamRef", "Age"},
	})
}

// paramRights are what users of the test below may read: verb group/version/resource namespace/name.
var paramRights = map[string][]string{
	"owner":  {"get limits.annex.test/v1/limits */*", "get limits.annex.test/v1/limits team/strict"},
	"kinds":  {"get limits.annex.test/v1/limits */*"},
	"reader": {"get limits.annex.test/v1/limits team/strict"},
	"lister": {"list limits.annex.test/v1/limits team/"},
	"all":    {"get */*/* team/strict"},
}

func paramAccess(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	asked := fmt.Sprintf("%s %s/%s/%s %s/%s", a.GetVerb(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetNamespace(), a.GetName())
	if slices.Contains(paramRights[a.GetUser().GetName()], asked) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func TestParametersAreForThoseWhoMayReadThem(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "limits.annex.test", Version: "v1", Kind: "Limit"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "limits.annex.test", Version: "v1", Kind: "Other"}, meta.RESTScopeNamespace)
	server := start(t, admissionregistration.GroupVersion, admissionregistration.Kinds(authorizer.AuthorizerFunc(paramAccess), mapper))

	strict := map[string]any{"name": "strict", "namespace": "team", "parameterNotFoundAction": "Deny"}
	selected := map[string]any{"selector": map[string]any{}, "namespace": "team", "parameterNotFoundAction": "Deny"}
	for _, family := range []string{"Validating", "Mutating"} {
		for _, stored := range []*unstructured.Unstructured{
			paramPolicy(family, "stored", "Limit"), paramPolicy(family, "plain", ""), paramBinding(family, "stored", "stored", strict),
		} {
			if err := applyAs(t, server, "owner", stored); err != nil {
				t.Fatal(err)
			}
		}
		for name, tc := range map[string]struct {
			user   string
			object *unstructured.Unstructured
			// refused is the field at fault, if any.
			refused string
		}{
			"a policy, by who may read the kind":            {"kinds", paramPolicy(family, "new", "Limit"), ""},
			"a policy, by who may read one object":          {"reader", paramPolicy(family, "new", "Limit"), "spec.paramKind"},
			"a policy, of a kind that is not known":         {"kinds", paramPolicy(family, "new", "Unknown"), "spec.paramKind"},
			"a policy without parameters":                   {"nobody", paramPolicy(family, "new", ""), ""},
			"a change of a policy that keeps the kind":      {"nobody", labelled(paramPolicy(family, "stored", "Limit")), ""},
			"a change of a policy's kind":                   {"kinds", paramPolicy(family, "stored", "Other"), "spec.paramKind"},
			"a change that takes a policy's kind away":      {"nobody", paramPolicy(family, "stored", ""), ""},
			"a binding, by who may read the object":         {"reader", paramBinding(family, "new", "stored", strict), ""},
			"a binding, by who may list":                    {"lister", paramBinding(family, "new", "stored", strict), "spec.paramRef"},
			"a binding that selects, by who may list":       {"lister", paramBinding(family, "new", "stored", selected), ""},
			"a binding that selects, by who may read one":   {"reader", paramBinding(family, "new", "stored", selected), "spec.paramRef"},
			"a binding without parameters":                  {"nobody", paramBinding(family, "new", "stored", nil), ""},
			"a binding to no policy":                        {"reader", paramBinding(family, "new", "absent", strict), "spec.paramRef"},
			"a binding to no policy, by who may read all":   {"all", paramBinding(family, "new", "absent", strict), ""},
			"a binding to a policy without parameters":      {"reader", paramBinding(family, "new", "plain", strict), "spec.paramRef"},
			"a change of a binding that keeps the object":   {"nobody", labelled(paramBinding(family, "stored", "stored", strict)), ""},
			"a change of a binding's object":                {"nobody", paramBinding(family, "stored", "stored", selected), "spec.paramRef"},
			"a change of a binding's policy":                {"reader", paramBinding(family, "stored", "plain", strict), "spec.paramRef"},
			"a change that takes a binding's object away":   {"nobody", paramBinding(family, "stored", "stored", nil), ""},
			"a change of a binding's object, by its reader": {"lister", paramBinding(family, "stored", "stored", selected), ""},
		} {
			t.Run(tc.object.GetKind()+"/"+name, func(t *testing.T) {
				err := applyAs(t, server, tc.user, tc.object, metav1.DryRunAll)
				if tc.refused == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				var refusal apierrors.APIStatus
				if !errors.As(err, &refusal) || !apierrors.IsInvalid(err) || len(refusal.Status().Details.Causes) != 1 {
					t.Fatalf("got %v, want one cause for refusal", err)
				}
				want := metav1.StatusCause{Type: metav1.CauseTypeForbidden, Field: tc.refused}
				got := refusal.Status().Details.Causes[0]
				if !strings.Contains(got.Message, tc.user) {
					t.Errorf("the message does not name the user: %s", got.Message)
				}
				got.Message = ""
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("cause (-want,+got):\n%s", diff)
				}
			})
		}
	}
}

func applyAs(t *testing.T, server *resourcetest.Server, user string, obj *unstructured.Unstructured, dryRun ...string) error {
	t.Helper()
	config := rest.CopyConfig(server.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return asUser{user, next} })
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	plural := map[string]string{
		"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
		"MutatingAdmissionPolicy": "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
	}[obj.GetKind()]
	_, err = client.Resource(admissionregistration.GroupVersion.WithResource(plural)).
		Apply(t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true, DryRun: dryRun})
	return err
}

type asUser struct {
	name string
	next http.RoundTripper
}

func (u asUser) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set(resourcetest.UserHeader, u.name)
	return u.next.RoundTrip(request)
}

func paramPolicy(family, name, paramKind string) *unstructured.Unstructured {
	spec := validatingPolicySpec("true")
	if family == "Mutating" {
		spec = mutatingPolicySpec("Object{}")
	}
	if paramKind != "" {
		spec["paramKind"] = map[string]any{"apiVersion": "limits.annex.test/v1", "kind": paramKind}
	}
	return policyObject(family+"AdmissionPolicy", name, spec)
}

func paramBinding(family, name, policy string, ref map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"policyName": policy}
	if ref != nil {
		spec["paramRef"] = ref
	}
	if family == "Validating" {
		spec["validationActions"] = []any{"Audit"}
	}
	return policyObject(family+"AdmissionPolicyBinding", name, spec)
}

func policyObject(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": admissionregistration.GroupVersion.String(), "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func labelled(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj.SetLabels(map[string]string{"changed": "true"})
	return obj
}
