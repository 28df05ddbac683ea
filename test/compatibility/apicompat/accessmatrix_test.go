// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

// accessPolicy is roles and bindings that both servers get. Each document is one object.
const accessPolicy = `
{kind: ClusterRole, metadata: {name: matrix:reader}, rules: [{verbs: [get, list, watch], apiGroups: [""], resources: [configmaps, secrets/status]}]}
---
{kind: ClusterRole, metadata: {name: matrix:all-verbs}, rules: [{verbs: ["*"], apiGroups: [""], resources: [secrets]}]}
---
{kind: ClusterRole, metadata: {name: matrix:all-groups}, rules: [{verbs: [list], apiGroups: ["*"], resources: [leases, roles]}]}
---
{kind: ClusterRole, metadata: {name: matrix:all-resources}, rules: [{verbs: [delete], apiGroups: [coordination.k8s.io], resources: ["*"]}]}
---
{kind: ClusterRole, metadata: {name: matrix:subresources}, rules: [{verbs: [update], apiGroups: ["*"], resources: ["*/status", "*/"]}, {verbs: [get], apiGroups: [""], resources: [namespaces/finalize, "namespaces/*", "*/a/b"]}]}
---
{kind: ClusterRole, metadata: {name: matrix:names}, rules: [{verbs: [get, update, list, create, deletecollection], apiGroups: [""], resources: [configmaps], resourceNames: [mine, "*"]}]}
---
{kind: ClusterRole, metadata: {name: matrix:paths}, rules: [{verbs: [get], nonResourceURLs: [/metrics, /debug/*, /x*, /two**]}, {verbs: ["*"], nonResourceURLs: [/logs/a]}]}
---
{kind: ClusterRole, metadata: {name: matrix:all-paths}, rules: [{verbs: [head], nonResourceURLs: ["*"]}]}
---
{kind: ClusterRole, metadata: {name: matrix:delegation}, rules: [{verbs: [bind], apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], resourceNames: [view]}, {verbs: [escalate], apiGroups: [rbac.authorization.k8s.io], resources: [roles]}, {verbs: [impersonate], apiGroups: [""], resources: [users], resourceNames: [dave]}]}
---
{kind: ClusterRole, metadata: {name: matrix:empty}}
---
{kind: Role, metadata: {name: "matrix:local", namespace: verdicts}, rules: [{verbs: [update, patch], apiGroups: [""], resources: [configmaps]}, {verbs: [get], apiGroups: [""], resources: [namespaces]}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:readers}, roleRef: {kind: ClusterRole, name: matrix:reader}, subjects: [{kind: Group, name: matrix:readers}, {kind: User, name: carol}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:more}, roleRef: {kind: ClusterRole, name: matrix:all-verbs}, subjects: [{kind: User, name: carol}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:groups}, roleRef: {kind: ClusterRole, name: matrix:all-groups}, subjects: [{kind: Group, name: matrix:wide}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:resources}, roleRef: {kind: ClusterRole, name: matrix:all-resources}, subjects: [{kind: Group, name: matrix:wide}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:subresources}, roleRef: {kind: ClusterRole, name: matrix:subresources}, subjects: [{kind: User, name: statuses}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:names}, roleRef: {kind: ClusterRole, name: matrix:names}, subjects: [{kind: User, name: owner}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:paths}, roleRef: {kind: ClusterRole, name: matrix:paths}, subjects: [{kind: User, name: paths}, {kind: ServiceAccount, name: robot, namespace: verdicts}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:all-paths}, roleRef: {kind: ClusterRole, name: matrix:all-paths}, subjects: [{kind: User, name: paths}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:delegation}, roleRef: {kind: ClusterRole, name: matrix:delegation}, subjects: [{kind: User, name: delegate}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:broken}, roleRef: {kind: ClusterRole, name: matrix:no-such-role}, subjects: [{kind: User, name: carol}, {kind: User, name: broken}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:nobody}, roleRef: {kind: ClusterRole, name: cluster-admin}}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:nothing}, roleRef: {kind: ClusterRole, name: matrix:empty}, subjects: [{kind: User, name: broken}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:admin}, roleRef: {kind: ClusterRole, name: cluster-admin}, subjects: [{kind: User, name: root}]}
---
{kind: RoleBinding, metadata: {name: matrix:local, namespace: verdicts}, roleRef: {kind: Role, name: "matrix:local"}, subjects: [{kind: User, name: carol}, {kind: ServiceAccount, name: robot}, {kind: ServiceAccount, name: robot, namespace: default}]}
---
{kind: RoleBinding, metadata: {name: matrix:here, namespace: verdicts}, roleRef: {kind: ClusterRole, name: matrix:reader}, subjects: [{kind: User, name: dave}, {kind: Group, name: "system:serviceaccounts:verdicts"}]}
---
{kind: RoleBinding, metadata: {name: matrix:paths-here, namespace: verdicts}, roleRef: {kind: ClusterRole, name: matrix:paths}, subjects: [{kind: User, name: dave}]}
---
{kind: RoleBinding, metadata: {name: matrix:root-here, namespace: verdicts}, roleRef: {kind: ClusterRole, name: cluster-admin}, subjects: [{kind: User, name: root-here}]}
---
{kind: RoleBinding, metadata: {name: matrix:local-there, namespace: default}, roleRef: {kind: Role, name: "matrix:local"}, subjects: [{kind: User, name: erin}]}
`

// lastOfPolicy is created last: informers see the objects of a kind in order, so whoever has these rights tells that all was seen.
const lastOfPolicy = `
{kind: ClusterRole, metadata: {name: matrix:last}, rules: [{verbs: [see], apiGroups: [""], resources: [everywhere]}]}
---
{kind: Role, metadata: {name: "matrix:last", namespace: verdicts}, rules: [{verbs: [see], apiGroups: [""], resources: [here]}]}
---
{kind: ClusterRoleBinding, metadata: {name: matrix:last}, roleRef: {kind: ClusterRole, name: matrix:last}, subjects: [{kind: User, name: last}]}
---
{kind: RoleBinding, metadata: {name: matrix:last, namespace: verdicts}, roleRef: {kind: Role, name: "matrix:last"}, subjects: [{kind: User, name: last}]}
`

// defaultRoles are what users of a namespace have. On kube-apiserver nobody aggregates them here, so its users have the parts.
var defaultRoles = map[string]struct{ kube, annex []string }{
	"viewer":        {[]string{"system:aggregate-to-view"}, []string{"view"}},
	"editor":        {[]string{"system:aggregate-to-view", "system:aggregate-to-edit"}, []string{"edit"}},
	"administrator": {[]string{"system:aggregate-to-view", "system:aggregate-to-edit", "system:aggregate-to-admin"}, []string{"admin"}},
}

// who asks, with all their groups.
var who = map[string][]string{
	"carol": nil, "dave": {"system:authenticated"}, "erin": nil, "mallory": {"system:authenticated"}, "reader": {"x", "matrix:readers"}, "wide": {"matrix:wide"},
	"statuses": nil, "owner": nil, "paths": nil, "delegate": nil, "broken": nil, "root": nil, "root-here": nil, "master": {"system:masters"},
	"matrix:readers": {"carol"}, "system:anonymous": {"system:unauthenticated"}, "monitor": {"system:monitoring"},
	"system:serviceaccount:verdicts:robot": {"system:serviceaccounts", "system:serviceaccounts:verdicts", "system:authenticated"},
	"system:serviceaccount:default:robot":  {"system:serviceaccounts", "system:serviceaccounts:default"},
	"viewer":                               {"system:authenticated"}, "editor": {"system:authenticated"}, "administrator": {"system:authenticated"},
}

// what they ask for: "verb resource.group/subresource name namespace", where - stands for none, or "verb /path".
var what = strings.Fields(strings.ReplaceAll(`
get,configmaps,-,verdicts list,configmaps,-,verdicts list,configmaps,-,- watch,configmaps,-,default update,configmaps,mine,verdicts patch,configmaps,x,verdicts
update,configmaps,mine,default get,configmaps,mine,- get,configmaps,*,- get,configmaps,yours,- create,configmaps,-,- list,configmaps,mine,verdicts
deletecollection,configmaps,-,verdicts create,configmaps,-,verdicts *,configmaps,-,- get,*,-,- *,*,-,- get,Configmaps,-,verdicts GET,configmaps,-,verdicts
get,secrets,-,verdicts list,secrets,-,default frobnicate,secrets,x,default get,secrets/status,x,default delete,secrets,-,verdicts deletecollection,secrets,-,verdicts
list,leases.coordination.k8s.io,-,verdicts list,leases.example.com,-,verdicts get,leases.coordination.k8s.io,-,verdicts delete,leases.coordination.k8s.io,x,verdicts
delete,other.coordination.k8s.io,x,- delete,leases.coordination.k8s.io/status,x,- list,roles.rbac.authorization.k8s.io,-,verdicts create,roles.rbac.authorization.k8s.io,-,verdicts
update,namespaces/status,x,- update,namespaces/,x,- update,namespaces,x,- update,flowschemas.flowcontrol.apiserver.k8s.io/status,x,- get,namespaces/finalize,x,-
get,namespaces/other,x,- get,status,x,- update,status,x,- get,x/a/b,x,- get,namespaces,verdicts,verdicts get,namespaces,verdicts,- list,namespaces,-,- delete,namespaces,verdicts,verdicts
get,namespaces/status,verdicts,verdicts update,namespaces/finalize,verdicts,verdicts
bind,clusterroles.rbac.authorization.k8s.io,view,- bind,clusterroles.rbac.authorization.k8s.io,view,verdicts bind,clusterroles.rbac.authorization.k8s.io,edit,-
escalate,roles.rbac.authorization.k8s.io,x,verdicts escalate,clusterroles.rbac.authorization.k8s.io,x,- impersonate,users,dave,- impersonate,users,erin,-
impersonate,groups,dave,- impersonate,serviceaccounts,robot,verdicts impersonate,userextras.authentication.k8s.io/scopes,x,-
create,serviceaccounts,-,verdicts create,serviceaccounts/token,robot,verdicts list,serviceaccounts,-,verdicts get,serviceaccounts,robot,default
get,resourcequotas,x,verdicts get,resourcequotas/status,x,verdicts update,resourcequotas,x,verdicts create,resourcequotas,-,verdicts
list,events,-,verdicts create,events,-,verdicts list,events.events.k8s.io,-,verdicts deletecollection,events.events.k8s.io,-,verdicts
create,localsubjectaccessreviews.authorization.k8s.io,-,verdicts create,subjectaccessreviews.authorization.k8s.io,-,-
create,selfsubjectaccessreviews.authorization.k8s.io,-,- create,selfsubjectrulesreviews.authorization.k8s.io,-,- create,selfsubjectreviews.authentication.k8s.io,-,-
create,tokenreviews.authentication.k8s.io,-,- list,rolebindings.rbac.authorization.k8s.io,-,verdicts list,clusterroles.rbac.authorization.k8s.io,-,- delete,rolebindings.rbac.authorization.k8s.io,x,verdicts
create,customresourcedefinitions.apiextensions.k8s.io,-,- list,apiservices.apiregistration.k8s.io,-,- list,certificatesigningrequests.certificates.k8s.io,-,-
list,validatingadmissionpolicies.admissionregistration.k8s.io,-,- get,,-,-
get,/metrics get,/metrics/ get,/metrics/slis get,/debug get,/debug/ get,/debug/pprof/heap get,/x get,/xyz get,/two get,/twos head,/anything head,/ get,/
get,/logs/a post,/logs/a get,/logs/b get,/healthz get,/healthz/etcd get,/livez get,/readyz get,/readyz/etcd get,/version get,/version/ get,/api get,/api/v1 get,/apis/apps/v1
get,/openapi get,/openapi/v2 get,/openapi/v3/apis post,/apis get,/.well-known/openid-configuration get,/openid/v1/jwks get,*`, "\n", " "))

// TestAccessMatrix asks both servers who may do what, given the same roles and bindings.
func TestAccessMatrix(t *testing.T) {
	t.Parallel()
	preparePolicy(t)
	var asked, allowed int
	var mu sync.Mutex
	t.Cleanup(func() {
		t.Logf("%d questions, of which %d were answered with yes", asked, allowed)
		if asked < 300 || allowed < asked/10 || allowed > asked*9/10 {
			t.Errorf("%d of %d questions were answered with yes: that is no good matrix", allowed, asked)
		}
	})
	for name, groups := range who {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, question := range what {
				body := reviewOf(t, name, groups, question)
				ofKube, ofAnnex := verdictOn(t, kube, body), verdictOn(t, annex, body)
				if ofKube != ofAnnex {
					t.Errorf("%s: kube-apiserver says %t, annex %t", question, ofKube, ofAnnex)
				}
				mu.Lock()
				asked++
				if ofKube {
					allowed++
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range []string{"carol", "dave", "erin", "statuses", "owner", "paths", "delegate", "broken", "root-here"} {
		t.Run("all rules of "+name, func(t *testing.T) {
			t.Parallel()
			for _, in := range []string{namespace, "default"} {
				if diff := cmp.Diff(rulesOf(t, kube, name, in), rulesOf(t, annex, name, in)); diff != "" {
					t.Errorf("in %s (-kube-apiserver,+annex):\n%s", in, diff)
				}
			}
		})
	}
}

// preparePolicy returns when both servers know all roles and bindings.
func preparePolicy(t *testing.T) {
	t.Helper()
	var both sync.WaitGroup
	for _, s := range []*server{kube, annex} {
		both.Go(func() {
			create(t, s, accessPolicy)
			for name, roles := range defaultRoles {
				of := roles.kube
				if s == annex {
					of = roles.annex
				}
				for i, role := range of {
					create(t, s, fmt.Sprintf("{kind: RoleBinding, metadata: {name: matrix:%s-%d, namespace: %s}, roleRef: {kind: ClusterRole, name: %q}, subjects: [{kind: User, name: %s}]}",
						name, i, namespace, role, name))
				}
			}
			create(t, s, lastOfPolicy)
			for _, question := range []string{"see,everywhere,-,-", "see,here,-," + namespace} {
				body := reviewOf(t, "last", nil, question)
				if err := poll.Until(t.Context(), settleTimeout, func(context.Context) error {
					return poll.Want(verdictOn(t, s, body), "the last binding has no effect")
				}); err != nil {
					t.Errorf("%s does not know all roles and bindings: %v", s.name, err)
				}
			}
		})
	}
	both.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func create(t *testing.T, s *server, documents string) {
	t.Helper()
	for document := range strings.SplitSeq(documents, "---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Errorf("%s: %v", document, err)
			return
		}
		o["apiVersion"] = rbacv1.SchemeGroupVersion.String()
		kind, _ := o["kind"].(string)
		path := "/apis/" + rbacv1.SchemeGroupVersion.String()
		if in := o.metadata("namespace"); in != "" {
			path += "/namespaces/" + in
		}
		if got, code := post(t, s, path+"/"+strings.ToLower(kind)+"s", o); code != http.StatusCreated {
			t.Errorf("create %s in %s: %d %s", o.metadata("name"), s.name, code, got)
		}
	}
}

// reviewOf makes the review of one question.
func reviewOf(t *testing.T, user string, groups []string, question string) *authorizationv1.SubjectAccessReview {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Spec:     authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups},
	}
	parts := strings.Split(strings.ReplaceAll(question, ",-", ","), ",")
	switch len(parts) {
	case 2:
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: parts[0], Path: parts[1]}
	case 4:
		path, subresource, _ := strings.Cut(parts[1], "/")
		resource, group, _ := strings.Cut(path, ".")
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: parts[0], Group: group, Resource: resource, Subresource: subresource, Name: parts[2], Namespace: parts[3],
		}
	default:
		t.Fatalf("%q is no question", question)
	}
	return review
}

func verdictOn(t *testing.T, s *server, review *authorizationv1.SubjectAccessReview) bool {
	t.Helper()
	var answered authorizationv1.SubjectAccessReview
	got, code := post(t, s, "/apis/"+review.APIVersion+"/subjectaccessreviews", review)
	if err := json.Unmarshal([]byte(got), &answered); err != nil || code != http.StatusCreated || answered.Status.Denied {
		t.Errorf("%s answers %d %s, %v", s.name, code, got, err)
	}
	return answered.Status.Allowed
}

// rulesOf returns what a user may do in a namespace, in order.
func rulesOf(t *testing.T, s *server, user, in string) []string {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectRulesReview"},
		Spec:     authorizationv1.SelfSubjectRulesReviewSpec{Namespace: in},
	}
	content, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/apis/"+review.APIVersion+"/selfsubjectrulesreviews", bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("Content-Type", asJSON)
	// The client acts as somebody by itself unless the request says as whom.
	ask.Header.Set(authenticationv1.ImpersonateUserHeader, user)
	response, err := s.client.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(review); err != nil || response.StatusCode != http.StatusCreated {
		t.Fatalf("%s answers %d, %v", s.name, response.StatusCode, err)
	}
	rules := map[string]bool{fmt.Sprint("error: ", review.Status.EvaluationError): true}
	for _, rule := range review.Status.ResourceRules {
		// Everybody may know which cluster it is, of which kube-apiserver knows nothing.
		if !slices.Contains(rule.APIGroups, multicluster.GroupName) {
			rules[inOrder(rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames)] = true
		}
	}
	for _, rule := range review.Status.NonResourceRules {
		rules[inOrder(rule.Verbs, rule.NonResourceURLs)] = true
	}
	return slices.Sorted(maps.Keys(rules))
}

func inOrder(parts ...[]string) string {
	for i := range parts {
		parts[i] = slices.Sorted(slices.Values(parts[i]))
	}
	return fmt.Sprintf("%q", parts)
}

func post(t *testing.T, s *server, path string, body any) (string, int) {
	t.Helper()
	content, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.ask(t.Context(), request{method: http.MethodPost, path: path, body: content})
	if err != nil {
		t.Error(err)
	}
	return a.text, a.code
}
