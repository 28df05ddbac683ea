// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// aggregation makes, changes and deletes roles that another is made of.
func (s *story) aggregation(ctx context.Context) error {
	label := map[string]any{group + "/into": s.name}
	whole, err := s.global(ctx, clusterRoles, "ClusterRole", "-whole", map[string]any{"aggregationRule": map[string]any{
		"clusterRoleSelectors": []any{map[string]any{"matchLabels": label}},
	}})
	if err != nil {
		return err
	}
	var want []string
	for i := range 6 {
		rule := fmt.Sprintf("rule-%d", i)
		part, err := s.global(ctx, clusterRoles, "ClusterRole", fmt.Sprintf("-part-%d", i), labelled(map[string]any{"rules": []any{ruleAbout(rule)}}, label))
		if err != nil {
			return err
		}
		s.pause(ctx)
		switch i % 3 {
		case 1:
			s.ledger.forget(idOf(clusterRoles, part))
			if err := s.remove(ctx, clusterRoles, part, ""); err != nil {
				return err
			}
			continue
		case 2:
			rule += "-changed"
			if _, err := s.patch(ctx, clusterRoles, "", part.GetName(), fmt.Sprintf(`{"rules":[{"apiGroups":[""],"resources":["configmaps"],"resourceNames":[%q],"verbs":["get"]}]}`, rule)); err != nil {
				return err
			}
		}
		want = append(want, rule)
	}
	s.ledger.keepIf(clusterRoles, whole, func(role *unstructured.Unstructured) error {
		rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
		var got []string
		for _, rule := range rules {
			names, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resourceNames")
			got = append(got, names...)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("has other rules (-want,+got):\n%s", diff)
		}
		return nil
	})
	return nil
}

// checking makes policies with mistakes, and mends one.
func (s *story) checking(ctx context.Context) error {
	for i, expressions := range [][]string{{"object.data['many'] == 3"}, {"object.data['many'] == 3", "object.data['many'] == '3'"}} {
		policy, err := s.global(ctx, policies, "ValidatingAdmissionPolicy", fmt.Sprintf("-%d", i), map[string]any{"spec": map[string]any{
			"matchConstraints": map[string]any{
				"namespaceSelector": map[string]any{"matchLabels": map[string]any{"upkeep": "nowhere"}},
				"resourceRules":     []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps"}, "operations": []any{"CREATE"}}},
			},
			"validations": []any{map[string]any{"expression": expressions[0]}},
		}})
		if err != nil {
			return err
		}
		s.pause(ctx)
		if len(expressions) > 1 {
			if _, err := s.patch(ctx, policies, "", policy.GetName(), fmt.Sprintf(`{"spec":{"validations":[{"expression":%q}]}}`, expressions[1])); err != nil {
				return err
			}
		}
		s.ledger.keepIf(policies, policy, func(policy *unstructured.Unstructured) error {
			return isChecked(policy, len(expressions), len(expressions) == 1)
		})
	}
	return nil
}

// isChecked is nil for a policy whose status is about its generation, with a warning or without.
func isChecked(policy *unstructured.Unstructured, generation int, warned bool) error {
	observed, _, _ := unstructured.NestedInt64(policy.Object, "status", "observedGeneration")
	warnings, _, _ := unstructured.NestedSlice(policy.Object, "status", "typeChecking", "expressionWarnings")
	if observed != int64(generation) || policy.GetGeneration() != observed || len(warnings) > 0 != warned {
		return fmt.Errorf("is of generation %d, and the status is of %d with the warnings %v", policy.GetGeneration(), observed, warnings)
	}
	return nil
}

// schemaOfAnything is that of a custom resource.
func schemaOfAnything() map[string]any {
	return map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
}

func definitionOf(plural, kind string) *unstructured.Unstructured {
	return described(definitions, "CustomResourceDefinition", "", plural+"."+group, map[string]any{"spec": map[string]any{
		"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": schemaOfAnything()}},
	}})
}

// served returns once all replicas have the kind.
func (q *requests) served(ctx context.Context, of schema.GroupVersionResource) error {
	return q.everywhere(ctx, func(ctx context.Context, client dynamic.Interface) error {
		_, err := client.Resource(of).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

// migration has all objects of a kind stored in another version.
func (s *story) migration(ctx context.Context) error {
	namespace, err := s.namespace(ctx, "")
	if err != nil {
		return err
	}
	plural := prefix + "gadgets-" + s.name
	of := schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
	kind := "Gadget" + strings.ReplaceAll(s.name, "-", "")
	definition, _, err := s.create(ctx, definitions, definitionOf(plural, kind))
	if err != nil {
		return err
	}
	s.ledger.keepIf(definitions, definition, func(definition *unstructured.Unstructured) error {
		versions, _, _ := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
		if diff := cmp.Diff([]string{"v2"}, versions); diff != "" {
			return fmt.Errorf("says that other versions are stored (-want,+got):\n%s", diff)
		}
		return nil
	})
	s.later(definitions, definition)
	if err := s.served(ctx, of); err != nil {
		return err
	}
	for i := range 30 {
		gadget, _, err := s.create(ctx, of, described(of, kind, namespace, fmt.Sprintf("gadget-%d", i), map[string]any{"spec": map[string]any{"number": int64(i)}}))
		if err != nil {
			return err
		}
		s.ledger.put(idOf(of, gadget), &record{uid: gadget.GetUID(), content: contentOf(gadget), check: isInVersion("v2")})
	}
	_, err = s.change(ctx, definitions, "", definition.GetName(), "", func(definition *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(definition.Object, []any{
			map[string]any{"name": "v1", "served": true, "storage": false, "schema": schemaOfAnything()},
			map[string]any{"name": "v2", "served": true, "storage": true, "schema": schemaOfAnything()},
		}, "spec", "versions")
	})
	if err != nil {
		return err
	}
	s.pause(ctx)
	wanted, err := s.global(ctx, migrations, "StorageVersionMigration", "", map[string]any{"spec": map[string]any{
		"resource": map[string]any{"group": group, "resource": plural},
	}})
	if err != nil {
		return err
	}
	s.ledger.keepIf(migrations, wanted, hasSucceeded)
	return nil
}

func isInVersion(version string) func(*unstructured.Unstructured) error {
	return func(obj *unstructured.Unstructured) error {
		if want := group + "/" + version; obj.GetAPIVersion() != want {
			return fmt.Errorf("is stored as %s, want %s", obj.GetAPIVersion(), want)
		}
		return nil
	}
}

// hasSucceeded is nil for a migration that has ended well.
func hasSucceeded(migration *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedSlice(migration.Object, "status", "conditions")
	got := map[string]any{}
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		got[fmt.Sprint(condition["type"])] = condition["status"]
	}
	if got["Succeeded"] != "True" || got["Failed"] == "True" || got["Running"] == "True" {
		return fmt.Errorf("has not ended well: %v", got)
	}
	return nil
}
