// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func keys(objects []Object) []string {
	var found []string
	for _, object := range objects {
		found = append(found, keyOf(object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace(), object.GetName()))
	}
	return found
}

func TestObjects(t *testing.T) {
	t.Parallel()
	want := []string{
		"Namespace//annex-system",
		"ServiceAccount/annex-system/annex-apiserver",
		"Secret/annex-system/annex-apiserver-ca",
		"ClusterRole//annex-apiserver",
		"ClusterRoleBinding//annex-apiserver",
		"ClusterRole//annex-policy-parameters",
		"ClusterRoleBinding//annex-policy-parameters",
		"ClusterRoleBinding//annex-apiserver-auth-delegator",
		"Role/annex-system/annex-apiserver",
		"RoleBinding/annex-system/annex-apiserver",
		"RoleBinding/kube-system/annex-apiserver-authentication-reader",
		"ClusterRole//annex-feature-lifecycle",
		"Role/annex-system/annex-apiserver-feature-leases",
		"RoleBinding/annex-system/annex-apiserver-feature-leases",
		"ClusterRole//annex-controllers",
		"ClusterRoleBinding//annex-controllers",
		"Role/annex-system/annex-controllers",
		"RoleBinding/annex-system/annex-controllers",
		"ClusterRole//annex-view",
		"ClusterRole//annex-edit",
		"ClusterRole//annex-admin",
		"ClusterRole//annex-clusterclaim-reader",
		"ClusterRoleBinding//annex-clusterclaim-reader",
		"ClusterRole//annex-feature-reporter",
		"ClusterRole//annex-clusterset-member",
		"ClusterRole//annex-node-autoscaler",
		"FlowSchema//annex-apiserver-reviews",
		"FlowSchema//annex-apiserver-leases",
		"FlowSchema//annex-apiserver",
		"Service/annex-system/annex-apiserver",
		"APIService//v1alpha1.features.k8s.io",
		"APIService//v1alpha1.multicluster.k8s.io",
		"APIService//v1alpha1.node.k8s.io",
	}
	if diff := cmp.Diff(want, keys(New().Objects())); diff != "" {
		t.Errorf("objects (-want,+got):\n%s", diff)
	}
	for _, object := range New().Objects() {
		if object.GetLabels()["app.kubernetes.io/managed-by"] != "annex-register" {
			t.Errorf("%s lacks the label of what annex register makes", object.GetName())
		}
		if _, err := resourceOf(object); err != nil {
			t.Error(err)
		}
	}
}

// TestNothingIsTriedBefore what it refers to is there.
func TestNothingIsTriedBefore(t *testing.T) {
	t.Parallel()
	there := map[string]bool{"Namespace//": true, "Namespace//kube-system": true, "Role/kube-system/extension-apiserver-authentication-reader": true, "ClusterRole//system:auth-delegator": true}
	for _, object := range New().Objects() {
		for _, key := range needs(object) {
			if !there[key] {
				t.Errorf("%s needs %s, which does not come before it", object.GetName(), key)
			}
		}
		there[keyOf(object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace(), object.GetName())] = true
	}
}

// TestTheNamespaceOfTheFeaturesIsThere even if the Service is in another.
func TestTheNamespaceOfTheFeaturesIsThere(t *testing.T) {
	t.Parallel()
	elsewhere := New()
	elsewhere.Service.Namespace = "elsewhere"
	for name, r := range map[string]Registration{"the Service's": New(), "another": elsewhere} {
		found := map[string]int{}
		for _, key := range keys(r.Objects()) {
			found[key]++
		}
		if found["Namespace//annex-system"] != 1 || found["RoleBinding/annex-system/annex-apiserver-feature-leases"] != 1 {
			t.Errorf("%s: the objects are %v, want the namespace annex-system once, and the binding in it", name, found)
		}
	}
}

// TestNobodyButTheServerMayWriteLeasesAboutFeatures: they say who uses a feature, and what servers are configured to.
func TestNobodyButTheServerMayWriteLeasesAboutFeatures(t *testing.T) {
	t.Parallel()
	found := map[string][]string{}
	for _, object := range New().Objects() {
		role, ok := object.(*rbacv1.ClusterRole)
		if !ok {
			continue
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "leases") {
				found[role.Name] = append(found[role.Name], rule.Verbs...)
			}
		}
	}
	want := map[string][]string{"annex-apiserver": {"get", "list"}, "annex-feature-lifecycle": {"get", "list", "watch"}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("rights on Leases by ClusterRole (-want,+got):\n%s", diff)
	}
	for _, object := range New().Objects() {
		if role, ok := object.(*rbacv1.ClusterRole); ok && role.Name == "annex-feature-reporter" {
			want := []rbacv1.PolicyRule{allow("create", "features.k8s.io", "featurereports"), allow(read, "features.k8s.io", "features")}
			if diff := cmp.Diff(want, role.Rules); diff != "" {
				t.Errorf("what a reporter may do (-want,+got):\n%s", diff)
			}
		}
	}
}

func TestServiceAndSubjects(t *testing.T) {
	t.Parallel()
	type summary struct {
		Type     corev1.ServiceType
		External string
		Selector map[string]string
		Subject  rbacv1.Subject
		Port     int32
		Accounts int
	}
	external := New()
	external.ExternalName, external.ServicePort, external.User = "localhost", 6444, "someone"
	for name, tc := range map[string]struct {
		registration Registration
		want         summary
	}{
		"in the cluster": {New(), summary{
			corev1.ServiceTypeClusterIP, "", map[string]string{"app.kubernetes.io/name": "annex-apiserver"},
			rbacv1.Subject{Kind: "ServiceAccount", Namespace: "annex-system", Name: "annex-apiserver"}, 443, 1,
		}},
		"on the same machine": {external, summary{
			corev1.ServiceTypeExternalName, "localhost", nil,
			rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "someone"}, 6444, 0,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := summary{}
			for _, object := range tc.registration.Objects() {
				switch typed := object.(type) {
				case *corev1.Service:
					got.Type, got.External, got.Selector = typed.Spec.Type, typed.Spec.ExternalName, typed.Spec.Selector
				case *corev1.ServiceAccount:
					got.Accounts++
				case *rbacv1.RoleBinding:
					got.Subject = typed.Subjects[0]
				case *apiregistrationv1.APIService:
					got.Port = *typed.Spec.Service.Port
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

// TestUserRoles is who may do what, in the words of RBAC.
func TestUserRoles(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"annex-view": {
			"get,list,watch features.features.k8s.io",
			"get,list,watch clusterclaims.multicluster.k8s.io", "get,list,watch clusteridreservations.multicluster.k8s.io",
			"get,list,watch nodeballoons.node.k8s.io",
		},
		"annex-edit": {"create,delete,deletecollection,patch,update features.features.k8s.io"},
		"annex-admin": {
			"create,delete,deletecollection,patch,update clusterclaims.multicluster.k8s.io",
			"create,delete,deletecollection,patch,update clusteridreservations.multicluster.k8s.io",
			"create,delete,deletecollection,patch,update nodeballoons.node.k8s.io", "get,patch,update nodeballoons.node.k8s.io/resize",
		},
		"annex-clusterclaim-reader": {"get,list,watch clusterclaims.multicluster.k8s.io (clusterset.k8s.io, id.k8s.io)"},
		"annex-feature-reporter": {
			"create featurereports.features.k8s.io", "get,list,watch features.features.k8s.io",
		},
		"annex-clusterset-member": {"create,delete,get,list,update clusteridreservations.multicluster.k8s.io"},
		"annex-node-autoscaler":   {"get,list,watch nodeballoons.node.k8s.io", "get,patch,update nodeballoons.node.k8s.io/resize"},
	}
	got := map[string][]string{}
	aggregated := map[string]string{}
	for _, object := range New().userRoles() {
		role, ok := object.(*rbacv1.ClusterRole)
		if !ok {
			continue
		}
		var rights []access
		for _, rule := range role.Rules {
			rights = append(rights, expand(rule, "")...)
		}
		got[role.Name] = strings.Split(describe(rights), "; ")
		for label := range role.Labels {
			if to, ok := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); ok {
				aggregated[role.Name] = to
			}
		}
	}
	for name := range want {
		slices.Sort(want[name])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"annex-view": "view", "annex-edit": "edit", "annex-admin": "admin"}, aggregated); diff != "" {
		t.Errorf("aggregation (-want,+got):\n%s", diff)
	}
}

func TestWhoseAnAPIServiceIs(t *testing.T) {
	t.Parallel()
	service := func(namespace, name string) map[string]any {
		return map[string]any{"namespace": namespace, "name": name}
	}
	for name, tc := range map[string]struct {
		label   string
		service map[string]any
		want    string
	}{
		"ours":                 {"annex-register", service("annex-system", "annex-apiserver"), ""},
		"without the label":    {"", service("annex-system", "annex-apiserver"), "which lacks the label app.kubernetes.io/managed-by=annex-register"},
		"of another service":   {"", service("default", "other"), "which is served by service default/other"},
		"of the cluster":       {"", nil, "which the cluster serves by itself or from a CustomResourceDefinition"},
		"another registration": {"annex-register", service("other", "annex-apiserver"), "which another registration made for service other/annex-apiserver (`annex unregister --namespace other --service-name annex-apiserver` removes it)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			existing := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
			if tc.service != nil {
				existing.Object["spec"] = map[string]any{"service": tc.service}
			}
			existing.SetLabels(map[string]string{"app.kubernetes.io/managed-by": tc.label})
			if diff := cmp.Diff(tc.want, New().foreignAPIService(&item{existing: existing})); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestWithoutRightsNothingIsTried(t *testing.T) {
	t.Parallel()
	objects := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	reviews := allowing(false)
	reviews.Resources = []*metav1.APIResourceList{{GroupVersion: "flowcontrol.apiserver.k8s.io/v1"}}
	cluster := &Cluster{objects: objects, reviews: reviews, discovery: reviews.Discovery()}
	err := cluster.Register(t.Context(), New(), false, func(object string, action Action, _ string) { t.Errorf("%s %s", object, action) })
	for _, want := range []string{
		"create,get,patch apiservices.apiregistration.k8s.io (v1alpha1.features.k8s.io, v1alpha1.multicluster.k8s.io, v1alpha1.node.k8s.io)",
		"create,get,patch rolebindings.rbac.authorization.k8s.io in namespace kube-system (annex-apiserver-authentication-reader)",
		"create tokenreviews.authentication.k8s.io",
		"create,escalate,get,patch clusterroles.rbac.authorization.k8s.io (annex-policy-parameters)",
		"get,patch,update nodeballoons.node.k8s.io/resize",
		"get /metrics",
		"create,get,patch flowschemas.flowcontrol.apiserver.k8s.io (annex-apiserver, annex-apiserver-leases, annex-apiserver-reviews)",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if actions := objects.Actions(); len(actions) > 0 {
		t.Errorf("the cluster was asked for %v", actions)
	}
}

// allowing is a cluster that gives its user all rights, or none.
func allowing(allowed bool) *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}}, nil
	})
	return client
}

func TestContentIsWithoutWhatOnlyTheClusterSets(t *testing.T) {
	t.Parallel()
	for _, object := range New().Objects() {
		desired, err := content(object)
		if err != nil {
			t.Fatal(err)
		}
		if rules, found := desired.Object["rules"]; found && rules == nil {
			t.Errorf("%s %s would take the rules that the cluster has set", desired.GetKind(), desired.GetName())
		}
		if _, found := desired.Object["status"]; found {
			t.Errorf("%s %s has a status", desired.GetKind(), desired.GetName())
		}
		if _, found, _ := unstructured.NestedFieldNoCopy(desired.Object, "metadata", "creationTimestamp"); found {
			t.Errorf("%s %s has a creation timestamp", desired.GetKind(), desired.GetName())
		}
	}
}
