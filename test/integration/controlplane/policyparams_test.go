// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/kube-annex/annex/server/controlplane"
)

// TestParametersOfPoliciesMayBeCustomResources has a user who may read widgets and no more name them as parameters.
func TestParametersOfPoliciesMayBeCustomResources(t *testing.T) {
	t.Parallel()
	const pete = "pete"
	h := startHost(t, func(o *controlplane.Options) {
		o.Authorizers = append(o.Authorizers, authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			writes := a.GetAPIGroup() == admissionregistrationv1.GroupName
			reads := a.GetVerb() == "get" && a.GetAPIGroup() == widgets.Group && a.GetResource() == widgets.Resource
			if a.GetUser().GetName() == pete && (writes || reads) {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		}))
	})
	policies := core(t, h.As(pete)).AdmissionregistrationV1().ValidatingAdmissionPolicies()
	create := func() error {
		_, err := policies.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "widgets"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				ParamKind: &admissionregistrationv1.ParamKind{APIVersion: widgets.GroupVersion().String(), Kind: "Widget"},
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{"none.example.com"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
					},
				}}},
				Validations: []admissionregistrationv1.Validation{{Expression: "params.spec.size > 1"}},
			},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := create(); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.paramKind: Forbidden") {
		t.Errorf("while nobody serves the kind: got %v, want 422 for spec.paramKind", err)
	}
	createWidgetDefinition(t, h.Admin())
	eventually(t, create)
}
