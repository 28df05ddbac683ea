// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// access is one verb, on a resource or on a path.
type access struct {
	authorizationv1.ResourceAttributes
	// path is what the verb is on where it is not empty.
	path string
}

// rights asks the cluster what the user may do, and remembers what is missing.
type rights struct {
	cluster *Cluster
	known   map[access]bool
	missing []access
	// unlimited is an administrator, of whom nothing more is asked.
	unlimited bool
	err       error
}

func (c *Cluster) rights(ctx context.Context) *rights {
	r := &rights{cluster: c, known: map[access]bool{}}
	everything := authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Version: "*", Resource: "*"}
	r.unlimited = r.has(ctx, access{ResourceAttributes: everything}) && r.has(ctx, access{ResourceAttributes: authorizationv1.ResourceAttributes{Verb: "*"}, path: "*"})
	return r
}

// needOn adds verbs on an object. Who creates or changes roles and bindings must hold every right in them, or the verbs
// escalate and bind.
func (r *rights) needOn(ctx context.Context, i *item, verbs ...string) {
	for _, verb := range verbs {
		r.need(ctx, access{ResourceAttributes: authorizationv1.ResourceAttributes{
			Verb: verb, Group: i.resource.Group, Resource: i.resource.Resource, Namespace: i.object.GetNamespace(), Name: i.object.GetName(),
		}})
	}
	if slices.Contains(verbs, "patch") {
		r.needToGrant(ctx, i.object, i.resource.GroupResource())
	}
}

// verdict is an error that lists everything that is missing.
func (r *rights) verdict(ctx context.Context) error {
	if r.err != nil || len(r.missing) == 0 {
		return r.err
	}
	return fmt.Errorf("nothing was changed, since %s may not do all that is needed; missing: %s; ask an administrator of the cluster for these rights, or to run the command",
		r.cluster.userName(ctx), describe(r.missing))
}

// has asks once for each right.
func (r *rights) has(ctx context.Context, right access) bool {
	if allowed, ok := r.known[right]; ok || r.unlimited || r.err != nil {
		return allowed || r.unlimited
	}
	allowed, err := r.cluster.allowed(ctx, right)
	if err != nil {
		r.err = err
	}
	r.known[right] = allowed
	return allowed
}

func (r *rights) need(ctx context.Context, right access) {
	if !r.has(ctx, right) && !slices.Contains(r.missing, right) {
		r.missing = append(r.missing, right)
	}
}

// needToGrant adds what a role or binding gives to others.
func (r *rights) needToGrant(ctx context.Context, object Object, resource schema.GroupResource) {
	var rules []rbacv1.PolicyRule
	instead := authorizationv1.ResourceAttributes{Group: resource.Group, Namespace: object.GetNamespace(), Name: object.GetName()}
	switch typed := object.(type) {
	case *rbacv1.ClusterRole:
		rules, instead.Verb, instead.Resource = typed.Rules, "escalate", resource.Resource
	case *rbacv1.Role:
		rules, instead.Verb, instead.Resource = typed.Rules, "escalate", resource.Resource
	case *rbacv1.ClusterRoleBinding:
		rules, instead.Verb, instead.Resource, instead.Name = rulesOf(typed.RoleRef.Name), "bind", "clusterroles", typed.RoleRef.Name
	case *rbacv1.RoleBinding:
		rules, instead.Verb, instead.Resource, instead.Name = rulesOf(typed.RoleRef.Name), "bind", "roles", typed.RoleRef.Name
	}
	if role, ok := object.(*rbacv1.ClusterRole); ok && role.AggregationRule != nil {
		// What it comes to give depends on the labels of others, so it takes the right to give anything.
		r.need(ctx, access{ResourceAttributes: instead})
		return
	}
	if rules == nil || r.has(ctx, access{ResourceAttributes: instead}) {
		return
	}
	for _, rule := range rules {
		for _, right := range expand(rule, object.GetNamespace()) {
			r.need(ctx, right)
		}
	}
}

// expand lists the single rights of a rule.
func expand(rule rbacv1.PolicyRule, namespace string) []access {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var rights []access
	for _, path := range rule.NonResourceURLs {
		for _, verb := range rule.Verbs {
			rights = append(rights, access{ResourceAttributes: authorizationv1.ResourceAttributes{Verb: verb}, path: path})
		}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					resourceName, subresource, _ := strings.Cut(resource, "/")
					rights = append(rights, access{ResourceAttributes: authorizationv1.ResourceAttributes{
						Verb: verb, Group: group, Resource: resourceName, Subresource: subresource, Namespace: namespace, Name: name,
					}})
				}
			}
		}
	}
	return rights
}

func (c *Cluster) allowed(ctx context.Context, right access) (bool, error) {
	spec := authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right.ResourceAttributes}
	if right.path != "" {
		spec = authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: right.Verb, Path: right.path}}
	}
	review, err := c.reviews.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask which rights the user has: %w", c.explain(err))
	}
	return review.Status.Allowed, nil
}

// userName is who the cluster takes the caller for.
func (c *Cluster) userName(ctx context.Context) string {
	review, err := c.reviews.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "the user"
	}
	return fmt.Sprintf("user %q", review.Status.UserInfo.Username)
}

// describe writes rights in one line: verbs, resource and names together.
func describe(missing []access) string {
	verbs := map[access][]string{}
	for _, right := range missing {
		verb := right.Verb
		right.Verb = ""
		verbs[right] = append(verbs[right], verb)
	}
	names := map[string][]string{}
	for right, verbs := range verbs {
		slices.Sort(verbs)
		text := strings.Join(slices.Compact(verbs), ",") + " " + schema.GroupResource{Group: right.Group, Resource: right.Resource}.String() + right.path
		if right.Subresource != "" {
			text += "/" + right.Subresource
		}
		if right.Namespace != "" {
			text += " in namespace " + right.Namespace
		}
		names[text] = append(names[text], right.Name)
	}
	texts := make([]string, 0, len(names))
	for text, names := range names {
		slices.Sort(names)
		if names[0] != "" {
			text += " (" + strings.Join(names, ", ") + ")"
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}
