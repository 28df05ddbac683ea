// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	userinfo "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/server/controlplane"
)

// accountPrefix is before the names of controllers' accounts in the names of users.
const accountPrefix = "system:serviceaccount:kube-system:"

// rightsOfControllers are all that there are, with "verbs resource.group/subresource names" of each account.
var rightsOfControllers = map[string][]string{
	"shared-informers": {
		"list,watch namespaces", "list,watch resourcequotas", "list,watch serviceaccounts", "list,watch validatingadmissionpolicies.admissionregistration.k8s.io",
		"list,watch apiservices.apiregistration.k8s.io", "list,watch certificatesigningrequests.certificates.k8s.io",
		"list,watch flowschemas.flowcontrol.apiserver.k8s.io", "list,watch prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
		"list,watch clusterroles.rbac.authorization.k8s.io", "list,watch storageversionmigrations.storagemigration.k8s.io",
	},
	"remote-availability": {"update apiservices.apiregistration.k8s.io/status"},
	"flow-control-objects": {
		"create,update flowschemas.flowcontrol.apiserver.k8s.io", "create,update prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
	},
	"namespace-controller":               {"get namespaces", "update namespaces/finalize", "update namespaces/status", "list,delete,deletecollection *.*"},
	"service-account-controller":         {"create serviceaccounts"},
	"root-ca-cert-publisher":             {"create configmaps", "list,watch,update configmaps kube-root-ca.crt"},
	"tokens-controller":                  {"get,list,watch,update,delete secrets", "get,update serviceaccounts"},
	"generic-garbage-collector":          {"get,list,watch,patch,delete *.*"},
	"certificate-controller":             {"update certificatesigningrequests.certificates.k8s.io/status", "sign signers.certificates.k8s.io kubernetes.io/kube-apiserver-client"},
	"certificate-cleaner":                {"delete certificatesigningrequests.certificates.k8s.io"},
	"resourcequota-controller":           {"list,watch *.*", "update resourcequotas/status"},
	"expired-identities":                 {"list,delete leases.coordination.k8s.io in kube-system"},
	"clusterrole-aggregation-controller": {"escalate,update clusterroles.rbac.authorization.k8s.io"},
	"storage-version-migrator-controller": {
		"list,patch *.*", "get customresourcedefinitions.apiextensions.k8s.io", "update customresourcedefinitions.apiextensions.k8s.io/status",
		"get storageversionmigrations.storagemigration.k8s.io", "update storageversionmigrations.storagemigration.k8s.io/status",
	},
	"validatingadmissionpolicy-status-controller": {"patch validatingadmissionpolicies.admissionregistration.k8s.io/status"},
}

// ofReplicas is what every replica writes as the server itself, as Kubernetes' API servers do.
var ofReplicas = []string{
	"create namespaces", "create leases.coordination.k8s.io", "update leases.coordination.k8s.io", "delete leases.coordination.k8s.io",
	"create configmaps", "update configmaps",
	"create apiservices.apiregistration.k8s.io", "update apiservices.apiregistration.k8s.io/status",
	"create clusterroles.rbac.authorization.k8s.io", "create clusterrolebindings.rbac.authorization.k8s.io",
	"create roles.rbac.authorization.k8s.io", "create rolebindings.rbac.authorization.k8s.io",
	"patch flowschemas.flowcontrol.apiserver.k8s.io/status", "patch prioritylevelconfigurations.flowcontrol.apiserver.k8s.io/status",
}

func TestControllersHaveNoMoreRightsThanTheyNeed(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	client := core(t, h.Admin()).RbacV1()
	got := map[string][]string{}
	list := func(account, where string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			if len(rule.APIGroups) != 1 || len(rule.NonResourceURLs) > 0 {
				t.Errorf("a rule of %s is %v", account, rule)
				continue
			}
			for _, resource := range rule.Resources {
				name, subresource, _ := strings.Cut(resource, "/")
				got[account] = append(got[account], strings.TrimSpace(fmt.Sprintf("%s %s %s%s", strings.Join(rule.Verbs, ","),
					nameOf(name, rule.APIGroups[0], subresource), strings.Join(rule.ResourceNames, ","), where)))
			}
		}
	}
	// bindings are asked for, not roles: what counts is who has the rights of which.
	everywhere := must[*rbacv1.ClusterRoleBindingList](t)(client.ClusterRoleBindings().List(t.Context(), metav1.ListOptions{}))
	for _, binding := range everywhere.Items {
		for _, account := range accountsIn(binding.Subjects) {
			list(account, "", must[*rbacv1.ClusterRole](t)(client.ClusterRoles().Get(t.Context(), binding.RoleRef.Name, metav1.GetOptions{})).Rules)
		}
	}
	local := must[*rbacv1.RoleBindingList](t)(client.RoleBindings("").List(t.Context(), metav1.ListOptions{}))
	for _, binding := range local.Items {
		for _, account := range accountsIn(binding.Subjects) {
			role := must[*rbacv1.Role](t)(client.Roles(binding.Namespace).Get(t.Context(), binding.RoleRef.Name, metav1.GetOptions{}))
			list(account, "in "+binding.Namespace, role.Rules)
		}
	}
	for _, rights := range got {
		slices.Sort(rights)
	}
	want := map[string][]string{}
	for account, rights := range rightsOfControllers {
		want[account] = slices.Sorted(slices.Values(rights))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights of service accounts in kube-system (-want,+got):\n%s", diff)
	}
}

func nameOf(resource, group, subresource string) string {
	if group != "" {
		resource += "." + group
	}
	if subresource != "" {
		resource += "/" + subresource
	}
	return resource
}

// accountsIn returns the service accounts of kube-system among the subjects.
func accountsIn(subjects []rbacv1.Subject) []string {
	var accounts []string
	for _, subject := range subjects {
		if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == metav1.NamespaceSystem {
			accounts = append(accounts, subject.Name)
		}
	}
	return accounts
}

// TestControllersWriteAsThemselves has every controller write something, and looks in the audit log for who did.
func TestControllersWriteAsThemselves(t *testing.T) {
	t.Parallel()
	audited := filepath.Join(t.TempDir(), "audit.log")
	h, _ := startIssuer(t, func(o *controlplane.Options) {
		auditInto(t, o, audited)
		o.ServiceResolver = &toRemote{}
		o.Signing.CertFile, o.Signing.KeyFile = o.ClientCAFile, strings.TrimSuffix(o.ClientCAFile, ".crt")+".key"
	})
	askForSpentThings(t, h)
	h.Stop()
	h.Start()
	askForWork(t, h)

	var writes map[string]map[string]bool
	eventually(t, func() error {
		writes = writers(t, audited)
		for account := range rightsOfControllers {
			if len(writes[account]) == 0 && account != "shared-informers" {
				return fmt.Errorf("%s has written nothing; there were %v", account, slices.Sorted(maps.Keys(writes)))
			}
		}
		return nil
	})
	if did := writes["shared-informers"]; len(did) > 0 {
		t.Errorf("informers wrote: %v", did)
	}
	for write := range writes[userinfo.APIServerUser] {
		if !slices.Contains(ofReplicas, write) {
			t.Errorf("the server itself did: %s", write)
		}
	}
}

// writers tells what was written, by the account in kube-system or the user.
func writers(t *testing.T, audited string) map[string]map[string]bool {
	t.Helper()
	writes := map[string]map[string]bool{}
	for _, event := range auditedBy(t, audited, userinfo.APIServerUser) {
		if event.ObjectRef == nil || slices.Contains([]string{"get", "list", "watch"}, event.Verb) {
			continue
		}
		who := event.User.Username
		if event.ImpersonatedUser != nil {
			who = strings.TrimPrefix(event.ImpersonatedUser.Username, accountPrefix)
		}
		if writes[who] == nil {
			writes[who] = map[string]bool{}
		}
		writes[who][event.Verb+" "+nameOf(event.ObjectRef.Resource, event.ObjectRef.APIGroup, event.ObjectRef.Subresource)] = true
	}
	return writes
}

// askForSpentThings makes what controllers remove when they start: what they else look for every hour.
func askForSpentThings(t *testing.T, h *host) {
	t.Helper()
	client, long := core(t, h.Admin()), time.Now().Add(-2*time.Hour)
	must[*coordinationv1.Lease](t)(client.CoordinationV1().Leases("kube-system").Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "killed", Labels: map[string]string{identityLabel: "annex-controlplane"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("killed"), LeaseDurationSeconds: ptr.To[int32](1), RenewTime: ptr.To(metav1.NewMicroTime(long))},
	}, metav1.CreateOptions{}))
	csr := must[*certificatesv1.CertificateSigningRequest](t)(ask(t, client, "example.com/nobody", "developers"))
	denied := decision(certificatesv1.CertificateDenied)
	denied.LastUpdateTime = metav1.NewTime(long)
	csr.Status.Conditions = append(csr.Status.Conditions, denied)
	must[*certificatesv1.CertificateSigningRequest](t)(client.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{}))
}

// askForWork makes something for each controller. The flow control objects, accounts and authorities are missing from the start.
func askForWork(t *testing.T, h *host) {
	t.Helper()
	ctx, options, client := t.Context(), metav1.CreateOptions{}, core(t, h.Admin())
	gone := h.emptying().fresh(t, "gone")
	must[*corev1.ConfigMap](t)(client.CoreV1().ConfigMaps("gone").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "content"}}, options))
	h.emptying().remove(t, "gone")
	must[*corev1.Namespace](t)(client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, options))
	must[*corev1.Secret](t)(client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{"kubernetes.io/service-account.name": "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, options))
	must[*corev1.ConfigMap](t)(client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "orphan", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: "never-was"}},
	}}, options))
	csr := must[*certificatesv1.CertificateSigningRequest](t)(ask(t, client, certificatesv1.KubeAPIServerClientSignerName, "developers"))
	must[*certificatesv1.CertificateSigningRequest](t)(approve(t, client, csr.Name))
	must[*corev1.ResourceQuota](t)(client.CoreV1().ResourceQuotas("default").Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: amounts(map[string]int64{"count/secrets": 5})},
	}, options))
	must[*admissionregistrationv1.ValidatingAdmissionPolicy](t)(client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx,
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "inert"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: admissiontest.Constraints("", "v1", "configmaps", "elsewhere"), Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
			},
		}, options))
	sum := clusterRole("sum")
	sum.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}}}}
	must[*rbacv1.ClusterRole](t)(client.RbacV1().ClusterRoles().Create(ctx, sum, options))
	// Who migrates roles writes rights that he does not have himself, though not anew.
	for _, kind := range []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"} {
		migrate(t, h, kind, rbacv1.GroupName, kind)
	}
	for _, kind := range []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"} {
		waitMigration(t, h, kind, storagemigrationv1.MigrationSucceeded)
	}
	h.emptying().waitGone(t, gone)
	// Namespaces stay while there are kinds that nobody answers for, so this comes last.
	must[*apiregistrationv1.APIService](t)(services(t, h.Admin()).ApiregistrationV1().APIServices().Create(ctx, &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.away.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "away.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "away", Port: ptr.To[int32](443)},
		},
	}, options))
}

// TestControllersDoNotQueueWithUsers asks as a controller's account which flow its requests are in.
func TestControllersDoNotQueueWithUsers(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	client := core(t, h.Admin())
	config := h.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: accountPrefix + "generic-garbage-collector"}
	asController := must[*http.Client](t)(rest.HTTPClientFor(config))
	eventually(t, func() error {
		flow, err := client.FlowcontrolV1().FlowSchemas().Get(t.Context(), "kube-system-service-accounts", metav1.GetOptions{})
		if err != nil {
			return err
		}
		request := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+"/api/v1/configmaps", nil))
		response := must[*http.Response](t)(asController.Do(request))
		_ = response.Body.Close()
		if got := response.Header.Get("X-Kubernetes-PF-FlowSchema-UID"); got != string(flow.UID) {
			return fmt.Errorf("status %d, in the flow schema %s, want %s of %s", response.StatusCode, got, flow.UID, flow.Name)
		}
		return nil
	})
}
