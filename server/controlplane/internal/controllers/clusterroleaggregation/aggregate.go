// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterroleaggregation

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Aggregate returns the rules of the roles that an aggregated role selects: those of each selector by name, and each rule once.
func Aggregate(into *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	if into.AggregationRule == nil {
		return into.Rules, nil
	}
	all = slices.SortedFunc(slices.Values(all), func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	var rules []rbacv1.PolicyRule
	for i := range into.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&into.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("read selector %d of ClusterRole %s: %w", i, into.Name, err)
		}
		for _, role := range all {
			if role.Name == into.Name || !selector.Matches(labels.Set(role.Labels)) {
				continue
			}
			for _, rule := range role.Rules {
				if !slices.ContainsFunc(rules, func(known rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(known, rule) }) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, nil
}
