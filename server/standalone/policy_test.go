// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/controlplane/bootstrappolicy"
)

func TestPartsHaveTheRightsThatTheyNeedAndNoOthers(t *testing.T) {
	t.Parallel()
	client, err := kubernetes.NewForConfig(run(t, t.TempDir()).server.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	const extension, controllers = "system:annex:apiserver", "system:annex:controllers"
	configMap := func(namespace, name string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Verb: "watch", Version: "v1", Resource: "configmaps", Namespace: namespace, Name: name}
	}
	path := func(path string) *authorizationv1.NonResourceAttributes {
		return &authorizationv1.NonResourceAttributes{Verb: "get", Path: path}
	}
	resource := func(verb, group, resource, subresource string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: subresource}
	}
	object := func(verb, group, resource, name string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Name: name}
	}
	lease := func(verb, namespace string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Verb: verb, Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace, Name: "annex-observer"}
	}
	report := func(namespace string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Verb: "create", Group: "features.k8s.io", Resource: "featurereports", Namespace: namespace}
	}
	for name, tc := range map[string]struct {
		user     string
		groups   []string
		resource *authorizationv1.ResourceAttributes
		path     *authorizationv1.NonResourceAttributes
		want     bool
	}{
		"extension, access reviews":               {user: extension, resource: resource("create", "authorization.k8s.io", "subjectaccessreviews", ""), want: true},
		"extension, token reviews":                {user: extension, resource: resource("create", "authentication.k8s.io", "tokenreviews", ""), want: true},
		"extension, status of flow schemas":       {user: extension, resource: resource("patch", "flowcontrol.apiserver.k8s.io", "flowschemas", "status"), want: true},
		"extension, flow schemas themselves":      {user: extension, resource: resource("patch", "flowcontrol.apiserver.k8s.io", "flowschemas", "")},
		"extension, Leases of leaders":            {user: extension, resource: resource("get", "coordination.k8s.io", "leases", ""), want: true},
		"extension, Leases of announcers":         {user: extension, resource: resource("list", "coordination.k8s.io", "leases", ""), want: true},
		"extension, taking a Lease":               {user: extension, resource: resource("update", "coordination.k8s.io", "leases", "")},
		"extension, the Leases of features":       {user: extension, resource: lease("list", "annex-system"), want: true},
		"extension, its own Lease of features":    {user: extension, resource: lease("delete", "annex-system"), want: true},
		"extension, writing Leases elsewhere":     {user: extension, resource: lease("update", "frob-system")},
		"controllers, reporting features":         {user: controllers, resource: report("annex-system"), want: true},
		"controllers, reporting others' features": {user: controllers, resource: report("kube-system")},
		"extension, its trust":                    {user: extension, resource: configMap("kube-system", "extension-apiserver-authentication"), want: true},
		"extension, another ConfigMap":            {user: extension, resource: configMap("kube-system", "other")},
		"extension, all ConfigMaps":               {user: extension, resource: configMap("kube-system", "")},
		"extension, the same name somewhere else": {user: extension, resource: configMap("default", "extension-apiserver-authentication")},
		"extension, namespaces":                   {user: extension, resource: resource("list", "", "namespaces", ""), want: true},
		"extension, writing namespaces":           {user: extension, resource: resource("create", "", "namespaces", "")},
		"extension, secrets":                      {user: extension, resource: resource("get", "", "secrets", "")},
		"controllers, taking a Lease":             {user: controllers, resource: lease("update", "annex-system"), want: true},
		"controllers, a Lease of the host":        {user: controllers, resource: lease("update", "kube-system")},
		"controllers, Features":                   {user: controllers, resource: resource("create", "features.k8s.io", "features", ""), want: true},
		"controllers, removing Features":          {user: controllers, resource: resource("delete", "features.k8s.io", "features", "")},
		"controllers, the cluster's id":           {user: controllers, resource: object("update", "multicluster.k8s.io", "clusterclaims", "id.k8s.io"), want: true},
		"controllers, another claim":              {user: controllers, resource: object("update", "multicluster.k8s.io", "clusterclaims", "region.example.com")},
		"controllers, leaving a set":              {user: controllers, resource: object("delete", "multicluster.k8s.io", "clusterclaims", "clusterset.k8s.io")},
		"controllers, the cluster's uid":          {user: controllers, resource: object("get", "", "namespaces", "kube-system"), want: true},
		"controllers, other namespaces":           {user: controllers, resource: object("get", "", "namespaces", "default")},
		"controllers, metrics":                    {user: controllers, path: path("/metrics"), want: true},
		"controllers, secrets":                    {user: controllers, resource: resource("get", "", "secrets", "")},
		"extension, touching an APIService":       {user: extension, resource: object("patch", "apiregistration.k8s.io", "apiservices", "v1alpha1.node.k8s.io"), want: true},
		"extension, another APIService":           {user: extension, resource: object("patch", "apiregistration.k8s.io", "apiservices", "v1.")},
		"extension, the cluster's policies":       {user: extension, resource: resource("watch", "admissionregistration.k8s.io", "validatingadmissionpolicies", ""), want: true},
		"extension, writing policies":             {user: extension, resource: resource("create", "admissionregistration.k8s.io", "validatingadmissionpolicies", "")},
		"extension, roles":                        {user: extension, resource: resource("get", "rbac.authorization.k8s.io", "clusterroles", "")},
		"controllers, access reviews":             {user: controllers, resource: resource("create", "authorization.k8s.io", "subjectaccessreviews", "")},
		"a group that has the name of a part":     {groups: []string{extension}, resource: resource("list", "", "namespaces", "")},
		"everybody, the cluster's id":             {groups: []string{"system:authenticated"}, resource: object("get", "multicluster.k8s.io", "clusterclaims", "id.k8s.io"), want: true},
		"everybody, other claims":                 {groups: []string{"system:authenticated"}, resource: resource("list", "multicluster.k8s.io", "clusterclaims", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: tc.user, Groups: tc.groups, ResourceAttributes: tc.resource, NonResourceAttributes: tc.path},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed != tc.want || review.Status.Denied {
				t.Errorf("got %+v, want allowed %t", review.Status, tc.want)
			}
		})
	}
}

// TestEveryBindingRefersToARole looks at all that a start brings about.
func TestEveryBindingRefersToARole(t *testing.T) {
	t.Parallel()
	all := bootstrappolicy.Standard().And(policy())
	roles := map[string]bool{}
	for _, role := range all.ClusterRoles {
		roles["ClusterRole "+role.Name] = true
	}
	for _, role := range all.Roles {
		roles["Role "+role.Name+" in "+role.Namespace] = true
	}
	for _, binding := range all.ClusterRoleBindings {
		if !roles["ClusterRole "+binding.RoleRef.Name] {
			t.Errorf("ClusterRoleBinding %s refers to %s", binding.Name, binding.RoleRef.Name)
		}
	}
	for _, binding := range all.RoleBindings {
		if !roles["Role "+binding.RoleRef.Name+" in "+binding.Namespace] {
			t.Errorf("RoleBinding %s in %s refers to %s", binding.Name, binding.Namespace, binding.RoleRef.Name)
		}
	}
}

// TestPartsDoNotWaitBehindOthers asks the host by which flow schema it queues what the parts ask of it.
func TestPartsDoNotWaitBehindOthers(t *testing.T) {
	t.Parallel()
	r := run(t, t.TempDir())
	kube := kubernetes.NewForConfigOrDie(r.server.AdminConfig())
	for name, tc := range map[string]struct{ user, path, schema string }{
		"a review":                 {extensionUser, "/apis/authorization.k8s.io/v1/subjectaccessreviews", "annex-reviews"},
		"a Lease":                  {controllersUser, "/apis/coordination.k8s.io/v1/namespaces/annex-system/leases", "annex-leases"},
		"anything else":            {extensionUser, "/api/v1/namespaces", "annex"},
		"a review for others":      {"somebody", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "global-default"},
		"the controllers, as well": {controllersUser, "/apis/features.k8s.io/v1alpha1/features", "annex"},
	} {
		schema, err := kube.FlowcontrolV1().FlowSchemas().Get(t.Context(), tc.schema, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		config := rest.CopyConfig(r.server.AdminConfig())
		config.Impersonate = rest.ImpersonationConfig{UserName: tc.user, Groups: []string{"system:authenticated"}}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		// The host sees a flow schema a little later than those who read it.
		err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			// Nothing is in it, so it is refused after it was queued.
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, config.Host+tc.path, strings.NewReader("{}"))
			if err != nil {
				return false, err
			}
			response, err := client.Do(request)
			if err != nil {
				return false, err
			}
			got = response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
			return got == string(schema.UID), response.Body.Close()
		})
		if err != nil {
			t.Errorf("%s was queued by the flow schema with the UID %s, want %s, %s: %v", name, got, schema.UID, tc.schema, err)
		}
	}
}
