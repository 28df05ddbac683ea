// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterroleaggregation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAggregate(t *testing.T) {
	t.Parallel()
	rule := func(verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"r"}}
	}
	clusterRole := func(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	}
	one, two, three := rule("one"), rule("two"), rule("three")
	labelled := func(role *rbacv1.ClusterRole, label string) *rbacv1.ClusterRole {
		role.Labels = map[string]string{label: "yes"}
		return role
	}
	into := labelled(clusterRole("into", rule("stale")), "a")
	into.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"b": "yes"}}, {MatchLabels: map[string]string{"a": "yes"}},
	}}
	all := []*rbacv1.ClusterRole{
		into,
		labelled(clusterRole("z", one, two), "a"), labelled(clusterRole("y", two), "a"), labelled(clusterRole("x", three), "b"), clusterRole("w", rule("no")),
	}
	got, err := Aggregate(into, all)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{three, two, one}, got); diff != "" {
		t.Errorf("rules (-want,+got):\n%s", diff)
	}
	into.AggregationRule.ClusterRoleSelectors[0].MatchLabels = map[string]string{"-": "no label"}
	if _, err := Aggregate(into, all); err == nil {
		t.Error("a selector that cannot be read was taken")
	}
}
