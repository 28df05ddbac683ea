// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/kube-annex/annex/registry/resource"
)

// binding is what bindings of both kinds have.
type binding struct {
	policyName string
	paramRef   *admissionregistrationv1.ParamRef
	resources  *admissionregistrationv1.MatchResources
}

func (b binding) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	name := path.Child("policyName")
	if b.policyName == "" {
		errs = append(errs, field.Required(name, ""))
	} else {
		for _, message := range validation.NameIsDNSSubdomain(b.policyName, false) {
			errs = append(errs, field.Invalid(name, b.policyName, message))
		}
	}
	errs = append(errs, validateParamRef(b.paramRef, path.Child("paramRef"))...)
	return append(errs, validateMatchResources(b.resources, path.Child("matchResources"))...)
}

// paramRefCell names what a binding takes parameters from.
func (b binding) paramRefCell() any {
	switch ref := b.paramRef; {
	case ref == nil || ref.Name == "" && ref.Selector == nil:
		return unset
	case ref.Name == "":
		return ref.Selector.String()
	case ref.Namespace == "":
		// Whether the parameters have a namespace is not known here.
		return "*/" + ref.Name
	default:
		return ref.Namespace + "/" + ref.Name
	}
}

// policyKind returns the kind of the parameters of a policy, which may have none.
type policyKind func(ctx context.Context, policy string) (*admissionregistrationv1.ParamKind, error)

// policyKinds reads policies from their storage in the group. It is none where the group is served without them.
func policyKinds[T any](group *resource.Group, plural string, kind func(T) *admissionregistrationv1.ParamKind) policyKind {
	policies, ok := group.Storage(plural).(rest.Getter)
	return func(ctx context.Context, policy string) (*admissionregistrationv1.ParamKind, error) {
		if !ok {
			return nil, fmt.Errorf("%s are not served", plural)
		}
		obj, err := policies.Get(ctx, policy, &metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("there is no policy %q", policy)
		case err != nil:
			return nil, fmt.Errorf("get the policy %q: %w", policy, err)
		}
		return kind(obj.(T)), nil
	}
}

func (p parameters) authorizeBinding(ctx context.Context, b, old *binding, kinds policyKind) field.ErrorList {
	if b.paramRef == nil || old != nil && b.policyName == old.policyName && equality.Semantic.DeepEqual(b.paramRef, old.paramRef) {
		return nil
	}
	err := p.authorizeReference(ctx, b.paramRef, func() (*admissionregistrationv1.ParamKind, error) { return kinds(ctx, b.policyName) })
	if err != nil {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "paramRef"), err.Error())}
	}
	return nil
}

func servedValidatingBindings(params parameters) resource.Served {
	served := validatingBindings(params, nil).Served()
	served.Install = func(group *resource.Group) error {
		kinds := policyKinds(group, validatingPolicies, func(policy *admissionregistrationv1.ValidatingAdmissionPolicy) *admissionregistrationv1.ParamKind {
			return policy.Spec.ParamKind
		})
		return validatingBindings(params, kinds).Install(group)
	}
	return served
}

func servedMutatingBindings(params parameters) resource.Served {
	served := mutatingBindings(params, nil).Served()
	served.Install = func(group *resource.Group) error {
		kinds := policyKinds(group, mutatingPolicies, func(policy *admissionregistrationv1.MutatingAdmissionPolicy) *admissionregistrationv1.ParamKind {
			return policy.Spec.ParamKind
		})
		return mutatingBindings(params, kinds).Install(group)
	}
	return served
}

func validatingBindings(params parameters, kinds policyKind) resource.Kind[*admissionregistrationv1.ValidatingAdmissionPolicyBinding] {
	common := func(obj *admissionregistrationv1.ValidatingAdmissionPolicyBinding) *binding {
		if obj == nil {
			return nil
		}
		return &binding{obj.Spec.PolicyName, obj.Spec.ParamRef, obj.Spec.MatchResources}
	}
	validate := func(obj *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
		path := field.NewPath("spec")
		return append(common(obj).validate(path), validateActions(obj.Spec.ValidationActions, path.Child("validationActions"))...)
	}
	return resource.Kind[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{
		Plural: "validatingadmissionpolicybindings", Singular: "validatingadmissionpolicybinding", Categories: categories(), Scope: resource.Cluster,
		NewList:     func() runtime.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{} },
		Generations: resource.CountGenerations,
		Default: func(obj *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			defaultMatchResources(obj.Spec.MatchResources)
		},
		Validate: func(obj *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
			return append(validateReservedName(obj), validate(obj)...)
		},
		ValidateUpdate: func(obj, _ *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
			return append(validateStoredMeta(obj), validate(obj)...)
		},
		Authorize: func(ctx context.Context, obj, old *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
			return params.authorizeBinding(ctx, common(obj), common(old), kinds)
		},
		Columns: bindingColumns(common),
	}
}

func mutatingBindings(params parameters, kinds policyKind) resource.Kind[*admissionregistrationv1.MutatingAdmissionPolicyBinding] {
	common := func(obj *admissionregistrationv1.MutatingAdmissionPolicyBinding) *binding {
		if obj == nil {
			return nil
		}
		return &binding{obj.Spec.PolicyName, obj.Spec.ParamRef, obj.Spec.MatchResources}
	}
	validate := func(obj *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
		path := field.NewPath("spec")
		return append(common(obj).validate(path), validateMutableOperations(obj.Spec.MatchResources, path.Child("matchResources"))...)
	}
	return resource.Kind[*admissionregistrationv1.MutatingAdmissionPolicyBinding]{
		Plural: "mutatingadmissionpolicybindings", Singular: "mutatingadmissionpolicybinding", Categories: categories(), Scope: resource.Cluster,
		NewList:     func() runtime.Object { return &admissionregistrationv1.MutatingAdmissionPolicyBindingList{} },
		Generations: resource.CountGenerations,
		Default: func(obj *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
			defaultMatchResources(obj.Spec.MatchResources)
		},
		Validate: func(obj *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
			return append(validateReservedName(obj), validate(obj)...)
		},
		ValidateUpdate: func(obj, _ *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
			return append(validateStoredMeta(obj), validate(obj)...)
		},
		Authorize: func(ctx context.Context, obj, old *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
			return params.authorizeBinding(ctx, common(obj), common(old), kinds)
		},
		Columns: bindingColumns(common),
	}
}

func bindingColumns[T any](common func(T) *binding) []resource.Column[T] {
	return []resource.Column[T]{
		{
			Name: "PolicyName", Description: "PolicyName indicates the policy definition which the policy binding binded to",
			Of: func(obj T) any { return common(obj).policyName },
		},
		{
			Name: "ParamRef", Description: "ParamRef indicates the param resource which sets the configuration param",
			Of: func(obj T) any { return common(obj).paramRefCell() },
		},
	}
}

// validateActions wants at least one, and not the same answer to the user twice.
func validateActions(actions []admissionregistrationv1.ValidationAction, path *field.Path) field.ErrorList {
	if len(actions) == 0 {
		return field.ErrorList{field.Required(path, "at least one validation action is required")}
	}
	var errs field.ErrorList
	for i := range actions {
		errs = append(errs, validateChoice(&actions[i], path.Index(i),
			admissionregistrationv1.Audit, admissionregistrationv1.Deny, admissionregistrationv1.Warn)...)
		if slices.Contains(actions[:i], actions[i]) {
			errs = append(errs, field.Duplicate(path.Index(i), actions[i]))
		}
	}
	if slices.Contains(actions, admissionregistrationv1.Deny) && slices.Contains(actions, admissionregistrationv1.Warn) {
		errs = append(errs, field.Invalid(path, actions,
			"must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	return errs
}
