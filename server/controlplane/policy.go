// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	rbacv1 "k8s.io/api/rbac/v1"
)

// grant allows subjects what the rules say. Subjects are written "user:name" or "group:name".
type grant struct {
	why string
	to  []string
	// namespace restricts rules about resources to one namespace; empty means everywhere.
	namespace string
	rules     []rbacv1.PolicyRule
}

// builtinPolicy is who may do what. Nobody else may do anything.
func builtinPolicy() []grant {
	return []grant{
		{
			why: "administrators, and the server itself",
			to:  []string{"group:system:masters"},
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
				{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
			},
		},
		{
			why: "probes, which have no identity",
			to:  []string{"group:system:unauthenticated", "group:system:authenticated"},
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/livez", "/readyz"}},
			},
		},
		{
			why: "everyone may see what there is, and ask about themselves",
			to:  []string{"group:system:authenticated"},
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get"}, NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"}},
				{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}},
				{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}},
			},
		},
		{
			why: "aggregators read discovery and OpenAPI of extension servers, which ask here whether they may",
			to:  []string{"user:system:aggregator", "user:system:kube-aggregator"},
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get"}, NonResourceURLs: []string{"/", "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"}},
			},
		},
		{
			why: "the extension apiserver has users authenticated and authorized here, checks namespaces, queues by the flow schemas, and asks whether a leader's term goes on",
			to:  []string{"user:system:annex:apiserver"},
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}},
				{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}},
				{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"namespaces"}},
				{Verbs: []string{"get"}, APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}},
				{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"flowcontrol.apiserver.k8s.io"}, Resources: []string{"flowschemas", "prioritylevelconfigurations"}},
				{Verbs: []string{"update", "patch"}, APIGroups: []string{"flowcontrol.apiserver.k8s.io"}, Resources: []string{"flowschemas/status", "prioritylevelconfigurations/status"}},
			},
		},
		{
			why:       "the extension apiserver's replicas know each other, and who reports features, by Leases",
			to:        []string{"user:system:annex:apiserver"},
			namespace: "annex-system",
			rules: []rbacv1.PolicyRule{{
				Verbs: []string{"get", "list", "watch", "create", "update", "delete"}, APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			}},
		},
		{
			why: "the extension apiserver says when what it serves has changed",
			to:  []string{"user:system:annex:apiserver"},
			rules: []rbacv1.PolicyRule{{
				Verbs: []string{"patch"}, APIGroups: []string{"apiregistration.k8s.io"}, Resources: []string{"apiservices"},
				ResourceNames: []string{"v1alpha1.features.k8s.io", "v1alpha1.multicluster.k8s.io", "v1alpha1.node.k8s.io"},
			}},
		},
		{
			why:       "the extension apiserver learns whom to trust",
			to:        []string{"user:system:annex:apiserver"},
			namespace: "kube-system",
			rules: []rbacv1.PolicyRule{{
				Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"},
				ResourceNames: []string{"extension-apiserver-authentication"},
			}},
		},
		{
			why:       "controllers of the extension hold Leases, and know each other by them",
			to:        []string{"user:system:annex:controllers"},
			namespace: "annex-system",
			rules: []rbacv1.PolicyRule{{
				Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}, APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			}},
		},
		{
			why:       "controllers of the extension report the feature gates that they use",
			to:        []string{"user:system:annex:controllers"},
			namespace: "annex-system",
			rules: []rbacv1.PolicyRule{{
				Verbs: []string{"create"}, APIGroups: []string{"features.k8s.io"}, Resources: []string{"featurereports"},
			}},
		},
		{
			why: "controllers of the extension read feature gates, and write what they have read into Features",
			to:  []string{"user:system:annex:controllers"},
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
				{Verbs: []string{"get", "list", "watch", "create", "update", "patch"}, APIGroups: []string{"features.k8s.io"}, Resources: []string{"features"}},
				{Verbs: []string{"get", "update", "patch"}, APIGroups: []string{"features.k8s.io"}, Resources: []string{"features/status"}},
			},
		},
		{
			why: "controllers of the extension provide the cluster's id, and tell about it and the cluster's set",
			to:  []string{"user:system:annex:controllers"},
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"create"}, APIGroups: []string{"multicluster.k8s.io"}, Resources: []string{"clusterclaims"}},
				{
					Verbs: []string{"get", "list", "watch", "update", "patch"}, APIGroups: []string{"multicluster.k8s.io"},
					Resources: []string{"clusterclaims", "clusterclaims/status"}, ResourceNames: []string{"id.k8s.io", "clusterset.k8s.io"},
				},
				{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}},
				{Verbs: []string{"create"}, APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}},
			},
		},
	}
}
