// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// parameters guard the objects that policies take parameters from: what a policy makes of them is told to whoever it judges, so
// nobody may name parameters that they cannot read themselves.
type parameters struct {
	access authorizer.Authorizer
	mapper meta.RESTMapper
}

// authorizePolicy wants the user to be allowed to read all that the parameters of a policy can be.
func (p parameters) authorizePolicy(ctx context.Context, obj, old *policy) field.ErrorList {
	if obj.paramKind == nil || old != nil && equality.Semantic.DeepEqual(obj.paramKind, old.paramKind) {
		return nil
	}
	if err := p.authorizeKind(ctx, obj.paramKind); err != nil {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "paramKind"), err.Error())}
	}
	return nil
}

// authorizeKind wants the user to be allowed to read all objects of a kind.
func (p parameters) authorizeKind(ctx context.Context, kind *admissionregistrationv1.ParamKind) error {
	wanted := anything("get", everything, everything)
	// The error only means that more has to be allowed.
	_ = p.resolve(ctx, kind, &wanted)
	allowed, err := p.allows(ctx, wanted)
	if err == nil && !allowed {
		err = fmt.Errorf("user %q must have permission to get all objects of the paramKind %s in %s",
			userName(ctx), kind.Kind, kind.APIVersion)
	}
	return err
}

// authorizeReference wants the user to be allowed to read what a binding refers to, of the kind that its policy has. A policy that
// has none, yet, or that cannot be read may come to have any.
func (p parameters) authorizeReference(ctx context.Context, ref *admissionregistrationv1.ParamRef, kind func() (*admissionregistrationv1.ParamKind, error)) error {
	wanted := anything("get", ref.Namespace, ref.Name)
	if ref.Name == "" {
		wanted.Verb = "list"
	}
	policyKind, unresolved := kind()
	if unresolved == nil {
		unresolved = p.resolve(ctx, policyKind, &wanted)
	}
	allowed, err := p.allows(ctx, wanted)
	switch {
	case err != nil || allowed:
		return err
	case unresolved != nil:
		return fmt.Errorf("user %q must have permission to %s all resources of all groups, because it is not known what paramRef refers to: %w",
			userName(ctx), wanted.Verb, unresolved)
	default:
		return fmt.Errorf("user %q must have permission to %s the %s that paramRef refers to", userName(ctx), wanted.Verb, wanted.Resource)
	}
}

// anything is access to whatever has a name, of all kinds.
func anything(verb, namespace, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		Verb: verb, APIGroup: everything, APIVersion: everything, Resource: everything, Namespace: namespace, Name: name, ResourceRequest: true,
	}
}

// resolve narrows what is wanted to a kind's resource, as far as that is known.
func (p parameters) resolve(ctx context.Context, kind *admissionregistrationv1.ParamKind, wanted *authorizer.AttributesRecord) error {
	if kind == nil {
		return errors.New("the policy has no paramKind")
	}
	version, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return err
	}
	wanted.APIGroup, wanted.APIVersion = version.Group, version.Version
	resource, err := p.resourceOf(ctx, version.WithKind(kind.Kind))
	if err != nil {
		return err
	}
	wanted.Resource = resource
	return nil
}

func (p parameters) resourceOf(ctx context.Context, kind schema.GroupVersionKind) (string, error) {
	if p.mapper == nil {
		return "", &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	mapper := meta.ToRESTMapperWithContext(p.mapper)
	mapping, err := mapper.RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		// The kind may be younger than what the mapper has read.
		meta.MaybeResetRESTMapperWithContext(ctx, mapper)
		mapping, err = mapper.RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return "", err
	}
	return mapping.Resource.Resource, nil
}

func (p parameters) allows(ctx context.Context, wanted authorizer.AttributesRecord) (bool, error) {
	if p.access == nil {
		return true, nil
	}
	who, ok := request.UserFrom(ctx)
	if !ok {
		return false, errors.New("the request has no user whose permission to read parameters could be asked for")
	}
	if slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
		return true, nil
	}
	wanted.User = who
	decision, _, err := p.access.Authorize(ctx, wanted)
	if err != nil {
		return false, fmt.Errorf("ask for permission to read parameters: %w", err)
	}
	return decision == authorizer.DecisionAllow, nil
}

func userName(ctx context.Context) string {
	if who, ok := request.UserFrom(ctx); ok {
		return who.GetName()
	}
	return ""
}

func validateParamKind(kind *admissionregistrationv1.ParamKind, path *field.Path) field.ErrorList {
	if kind == nil {
		return nil
	}
	errs := validateParamVersion(kind.APIVersion, path.Child("apiVersion"))
	if kind.Kind == "" {
		return append(errs, field.Required(path.Child("kind"), ""))
	}
	if messages := validation.IsDNS1035Label(strings.ToLower(kind.Kind)); len(messages) > 0 {
		errs = append(errs, field.Invalid(path.Child("kind"), kind.Kind,
			"may have mixed case, but should otherwise match: "+strings.Join(messages, ",")))
	}
	return errs
}

func validateParamVersion(apiVersion string, path *field.Path) field.ErrorList {
	if apiVersion == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return field.ErrorList{field.Invalid(path, apiVersion, err.Error())}
	}
	var errs field.ErrorList
	if version.Group != "" {
		for _, message := range validation.IsDNS1123Subdomain(version.Group) {
			errs = append(errs, field.Invalid(path, version.Group, message))
		}
	}
	if version.Version == "" {
		return append(errs, field.Invalid(path, apiVersion, "version must be specified"))
	}
	for _, message := range validation.IsDNS1035Label(version.Version) {
		errs = append(errs, field.Invalid(path, version.Version, message))
	}
	return errs
}

func validateParamRef(ref *admissionregistrationv1.ParamRef, path *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	var errs field.ErrorList
	if ref.Name != "" {
		for _, message := range content.IsPathSegmentName(ref.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), ref.Name, message))
		}
	}
	if ref.Selector != nil {
		errs = append(errs, validateSelector(ref.Selector, path.Child("selector"))...)
	}
	switch {
	case ref.Name == "" && ref.Selector == nil:
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	case ref.Name != "" && ref.Selector != nil:
		errs = append(errs, field.Forbidden(path.Child("name"), "name and selector are mutually exclusive"),
			field.Forbidden(path.Child("selector"), "name and selector are mutually exclusive"))
	}
	action := path.Child("parameterNotFoundAction")
	if ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == "" {
		return append(errs, field.Required(action, ""))
	}
	return append(errs, validateRequiredChoice(ref.ParameterNotFoundAction, action,
		admissionregistrationv1.AllowAction, admissionregistrationv1.DenyAction)...)
}
