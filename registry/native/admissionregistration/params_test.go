// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/kube-annex/annex/registry/resource"
)

var limits = schema.GroupVersionKind{Group: "a", Version: "v1", Kind: "Limit"}

// late knows kinds only once it was reset.
type late struct {
	*meta.DefaultRESTMapper
	resets int
}

func (l *late) Reset() {
	l.resets++
	l.Add(limits, meta.RESTScopeNamespace)
}

func TestAKindYoungerThanTheMapperIsFound(t *testing.T) {
	t.Parallel()
	mapper := &late{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil)}
	params := parameters{mapper: mapper}
	for range 2 {
		resource, err := params.resourceOf(t.Context(), limits)
		if err != nil || resource != "limits" {
			t.Fatalf("got %q and %v, want limits", resource, err)
		}
	}
	if mapper.resets != 1 {
		t.Errorf("the mapper was reset %d times, want once", mapper.resets)
	}
}

func TestWhoIsAskedForParameters(t *testing.T) {
	t.Parallel()
	kind := &admissionregistrationv1.ParamKind{APIVersion: "a/v1", Kind: "Limit"}
	deny := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionDeny, "", nil
	})
	broken := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", errors.New("the authorizer is away")
	})
	as := func(groups ...string) context.Context {
		return request.WithUser(t.Context(), &user.DefaultInfo{Name: "jane", Groups: groups})
	}
	for name, tc := range map[string]struct {
		ctx    context.Context
		access authorizer.Authorizer
		// want is a part of the message, empty if the parameters may be read.
		want string
	}{
		"a server without authorizer":    {t.Context(), nil, ""},
		"a request without user":         {t.Context(), deny, "the request has no user"},
		"who may not read":               {as(user.AllAuthenticated), deny, `user "jane" must have permission to get all objects of the paramKind Limit in a/v1`},
		"who may do everything":          {as(user.SystemPrivilegedGroup), deny, ""},
		"an authorizer that cannot tell": {as(user.AllAuthenticated), broken, "the authorizer is away"},
	} {
		err := parameters{access: tc.access}.authorizeKind(tc.ctx, kind)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

func TestParametersOfAKindThatIsNotKnown(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(limits, meta.RESTScopeNamespace)
	for name, tc := range map[string]struct {
		params parameters
		kind   *admissionregistrationv1.ParamKind
		want   schema.GroupVersionResource
	}{
		"known":              {parameters{mapper: mapper}, &admissionregistrationv1.ParamKind{APIVersion: "a/v1", Kind: "Limit"}, schema.GroupVersionResource{Group: "a", Version: "v1", Resource: "limits"}},
		"not known":          {parameters{mapper: mapper}, &admissionregistrationv1.ParamKind{APIVersion: "a/v1", Kind: "Other"}, schema.GroupVersionResource{Group: "a", Version: "v1", Resource: "*"}},
		"nobody knows":       {parameters{}, &admissionregistrationv1.ParamKind{APIVersion: "a/v1", Kind: "Limit"}, schema.GroupVersionResource{Group: "a", Version: "v1", Resource: "*"}},
		"no version":         {parameters{mapper: mapper}, &admissionregistrationv1.ParamKind{APIVersion: "a/b/c", Kind: "Limit"}, schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}},
		"no kind of its own": {parameters{mapper: mapper}, nil, schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}},
	} {
		wanted := anything("get", "", "")
		err := tc.params.resolve(t.Context(), tc.kind, &wanted)
		got := schema.GroupVersionResource{Group: wanted.APIGroup, Version: wanted.APIVersion, Resource: wanted.Resource}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: what is wanted (-want,+got):\n%s", name, diff)
		}
		if (err == nil) != (tc.want.Resource != everything) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

func TestBindingsOfAServerWithoutPolicies(t *testing.T) {
	t.Parallel()
	group := resource.NewGroup(nil, serializer.CodecFactory{}, nil, GroupVersion)
	kinds := policyKinds(group, validatingPolicies, func(*admissionregistrationv1.ValidatingAdmissionPolicy) *admissionregistrationv1.ParamKind {
		return nil
	})
	if _, err := kinds(t.Context(), "any"); err == nil || err.Error() != "validatingadmissionpolicies are not served" {
		t.Errorf("got %v, want that policies are not served", err)
	}
}
