// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistration "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// annexCommand runs a subcommand of annex to its end.
func annexCommand(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, framework.Annex(t, root), args...)
	var out, errs strings.Builder
	command.Stdout, command.Stderr = &out, &errs
	err = command.Run()
	return out.String(), errs.String(), err
}

func mustAnnex(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, err := annexCommand(t, args...)
	if err != nil {
		t.Fatalf("annex %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// wantAnnexError runs a command that fails with one line, which the pattern matches.
func wantAnnexError(t *testing.T, pattern string, args ...string) string {
	t.Helper()
	stdout, stderr, err := annexCommand(t, args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("annex %s ended with %v, want an error\n%s", strings.Join(args, " "), err, stdout)
	}
	if strings.Count(stderr, "\n") != 1 || !regexp.MustCompile(pattern).MatchString(stderr) {
		t.Errorf("annex %s said, want one line that matches %q:\n%s", strings.Join(args, " "), pattern, stderr)
	}
	return stdout
}

// registrationFlags are for commands about a namespace of the test's own: deleting one takes the cluster a minute, during
// which nothing can be created in it. That of Annex's features is there before, so that it stays. The registration is gone when the test
// ends.
func registrationFlags(t *testing.T, namespace string) []string {
	t.Helper()
	featuresNamespaceIsThere(t)
	flags := []string{"--kubeconfig=" + host.Kubeconfig, "--namespace=" + namespace}
	t.Cleanup(func() {
		if stdout, stderr, err := annexCommand(t, append([]string{"unregister"}, flags...)...); err != nil {
			t.Errorf("unregister at the end of the test: %v\n%s%s", err, stdout, stderr)
		}
	})
	return flags
}

func featuresNamespaceIsThere(t *testing.T) {
	t.Helper()
	_, err := host.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "annex-system"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// unregisterAtEnd removes what tests have registered under the default names, and waits for the namespace to go: the next test may
// register under them again.
func unregisterAtEnd(t *testing.T) {
	t.Cleanup(func() {
		if stdout, stderr, err := annexCommand(t, "unregister", "--kubeconfig="+host.Kubeconfig); err != nil {
			t.Errorf("unregister at the end of the test: %v\n%s%s", err, stdout, stderr)
		}
		// A test that registered under other names may have made it.
		err := host.Kubernetes.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), "annex-system", metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			t.Error(err)
		}
		if err := poll.Until(context.WithoutCancel(t.Context()), patience, func(ctx context.Context) error {
			namespace, err := host.Kubernetes.CoreV1().Namespaces().Get(ctx, "annex-system", metav1.GetOptions{})
			return wantNotFound(namespace, err)
		}); err != nil {
			t.Errorf("wait until the namespace is gone: %v", err)
		}
	})
}

// with puts a command before its flags.
func with(command string, flags []string, more ...string) []string {
	return append(append([]string{command}, flags...), more...)
}

// namespaceGoes checks that the namespace is deleted, or will be.
func namespaceGoes(t *testing.T, name string) {
	t.Helper()
	namespace, err := host.Kubernetes.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if err == nil && namespace.DeletionTimestamp == nil || err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is %v (%v), want it deleted", namespace, err)
	}
}

// actions are what a command said it did, and how often.
func actions(output string) map[string]int {
	counts := map[string]int{}
	for _, line := range strings.Split(strings.TrimSuffix(output, "\n"), "\n") {
		line, _, _ = strings.Cut(line, ":")
		fields := strings.Fields(strings.TrimSuffix(line, " (dry run)"))
		counts[fields[len(fields)-1]]++
	}
	return counts
}

// own lists all that bears the label of a registration.
func own(t *testing.T) []string {
	t.Helper()
	ctx, labelled := context.Background(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=annex-register"}
	var found []string
	add := func(kind string, list any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, namesIn(t, kind, list)...)
	}
	k := host.Kubernetes
	namespaces, err := k.CoreV1().Namespaces().List(ctx, labelled)
	namespaces.Items = slices.DeleteFunc(namespaces.Items, func(n corev1.Namespace) bool { return n.DeletionTimestamp != nil })
	add("namespace", namespaces, err)
	accounts, err := k.CoreV1().ServiceAccounts("").List(ctx, labelled)
	add("serviceaccount", accounts, err)
	secrets, err := k.CoreV1().Secrets("").List(ctx, labelled)
	add("secret", secrets, err)
	services, err := k.CoreV1().Services("").List(ctx, labelled)
	add("service", services, err)
	clusterRoles, err := k.RbacV1().ClusterRoles().List(ctx, labelled)
	add("clusterrole", clusterRoles, err)
	clusterRoleBindings, err := k.RbacV1().ClusterRoleBindings().List(ctx, labelled)
	add("clusterrolebinding", clusterRoleBindings, err)
	roles, err := k.RbacV1().Roles("").List(ctx, labelled)
	add("role", roles, err)
	roleBindings, err := k.RbacV1().RoleBindings("").List(ctx, labelled)
	add("rolebinding", roleBindings, err)
	flowSchemas, err := k.FlowcontrolV1().FlowSchemas().List(ctx, labelled)
	add("flowschema", flowSchemas, err)
	apiServiceList, err := apiServicesOf(t).List(ctx, labelled)
	add("apiservice", apiServiceList, err)
	return found
}

func TestRegisterAndUnregister(t *testing.T) {
	const namespace = "register-and-unregister"
	flags := registrationFlags(t, namespace)
	// objects is how many there are, besides the namespace of the features.
	const objects = 33
	want := map[string]int{"created": objects, "kept": 1}
	if diff := cmp.Diff(want, actions(mustAnnex(t, with("register", flags, "--dry-run")...))); diff != "" {
		t.Errorf("dry run (-want,+got):\n%s", diff)
	}
	if found := own(t); found != nil {
		t.Fatalf("the dry run made %v", found)
	}
	if diff := cmp.Diff(want, actions(mustAnnex(t, with("register", flags)...))); diff != "" {
		t.Errorf("first run (-want,+got):\n%s", diff)
	}
	if found := own(t); len(found) != objects {
		t.Errorf("the first run made %v, want %d objects", found, objects)
	}
	for _, args := range [][]string{with("register", flags), with("register", flags, "--dry-run")} {
		if diff := cmp.Diff(map[string]int{"unchanged": objects, "kept": 1}, actions(mustAnnex(t, args...))); diff != "" {
			t.Errorf("%v, repeated (-want,+got):\n%s", args, diff)
		}
	}
	// From a server in the cluster to one on this machine and back.
	external := with("register", flags, "--external-name=localhost", "--service-port=6444", "--user="+user)
	if diff := cmp.Diff(map[string]int{"unchanged": objects - 16, "configured": 15, "kept": 1}, actions(mustAnnex(t, external...))); diff != "" {
		t.Errorf("with another service (-want,+got):\n%s", diff)
	}
	mustAnnex(t, with("register", flags)...)
	service, err := host.Kubernetes.CoreV1().Services(namespace).Get(t.Context(), "annex-apiserver", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if service.Spec.Type != corev1.ServiceTypeClusterIP || service.Spec.ExternalName != "" || len(service.Spec.Selector) == 0 {
		t.Errorf("the service is %+v, want one with a selector", service.Spec)
	}
	mustAnnex(t, with("unregister", flags, "--dry-run")...)
	if found := own(t); len(found) != objects {
		t.Errorf("after the dry run of unregister there are %v, want %d objects", found, objects)
	}
	if diff := cmp.Diff(map[string]int{"deleted": objects, "kept": 1}, actions(mustAnnex(t, with("unregister", flags)...))); diff != "" {
		t.Errorf("unregister (-want,+got):\n%s", diff)
	}
	namespaceGoes(t, namespace)
	if found := own(t); found != nil {
		t.Errorf("unregister left %v", found)
	}
	if diff := cmp.Diff(map[string]int{"kept": 1}, actions(mustAnnex(t, with("unregister", flags)...))); diff != "" {
		t.Errorf("the second unregister (-want,+got):\n%s", diff)
	}
}

func TestUnregisterLeavesWhatItDidNotMake(t *testing.T) {
	const namespace = "unregister-leaves"
	flags := registrationFlags(t, namespace)
	mustAnnex(t, with("register", flags)...)
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	if _, err := host.Kubernetes.CoreV1().ConfigMaps(namespace).Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	output := mustAnnex(t, with("unregister", flags)...)
	if !strings.Contains(output, "namespace/"+namespace+" kept: it holds configmaps/mine\n") {
		t.Errorf("unregister does not say that it keeps the namespace:\n%s", output)
	}
	if err := host.Kubernetes.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"deleted": 1, "kept": 1}, actions(mustAnnex(t, with("unregister", flags)...))); diff != "" {
		t.Errorf("unregister of the empty namespace (-want,+got):\n%s", diff)
	}
	namespaceGoes(t, namespace)
}

func TestANamespaceThatWasThereStays(t *testing.T) {
	kubeconfig := "--kubeconfig=" + host.Kubeconfig
	featuresNamespaceIsThere(t)
	if _, err := host.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"register", kubeconfig, "--namespace=mine"}, {"unregister", kubeconfig, "--namespace=mine"}} {
		if output := mustAnnex(t, args...); !strings.Contains(output, "namespace/mine kept: ") {
			t.Errorf("%v does not say that it keeps the namespace:\n%s", args, output)
		}
	}
	mine, err := host.Kubernetes.CoreV1().Namespaces().Get(t.Context(), "mine", metav1.GetOptions{})
	if err != nil || mine.DeletionTimestamp != nil || mine.Labels["app.kubernetes.io/managed-by"] != "" {
		t.Errorf("the namespace is %v (%v), want it untouched", mine, err)
	}
}

func TestRegisterRefusesWhatBelongsToOthers(t *testing.T) {
	const namespace = "register-refuses"
	flags := registrationFlags(t, namespace)
	foreign := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1alpha1.multicluster.k8s.io"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "multicluster.k8s.io", Version: "v1alpha1", GroupPriorityMinimum: 1000, VersionPriority: 10, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "other", Port: ptr.To[int32](443)},
		},
	}
	made, err := apiServicesOf(t).Create(t.Context(), foreign, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{with("register", flags), with("register", flags, "--dry-run")} {
		wantAnnexError(t, `nothing was changed, .*: apiservice\.apiregistration\.k8s\.io/v1alpha1\.multicluster\.k8s\.io, which is served by service default/other; `, args...)
	}
	if found := own(t); found != nil {
		t.Errorf("register made %v", found)
	}
	wantAnnexError(t, `v1alpha1\.multicluster\.k8s\.io`, with("unregister", flags)...)
	now, err := apiServicesOf(t).Get(t.Context(), foreign.Name, metav1.GetOptions{})
	if err != nil || now.UID != made.UID {
		t.Fatalf("the APIService of others is %v (%v), want it untouched", now, err)
	}
	if err := apiServicesOf(t).Delete(t.Context(), foreign.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	// A second registration must not take over what the first has.
	mustAnnex(t, with("register", flags)...)
	wantAnnexError(t, "another registration made for service "+namespace+"/annex-apiserver", with("register", flags, "--namespace=default")...)
}

func TestRegisterNamesMissingRights(t *testing.T) {
	const namespace = "register-names-rights"
	registrationFlags(t, namespace)
	someone, err := host.Identity("someone")
	if err != nil {
		t.Fatal(err)
	}
	stdout := wantAnnexError(t, `nothing was changed, since user "someone" may not do all that is needed; missing: .*`+
		`create,get,patch apiservices\.apiregistration\.k8s\.io \(v1alpha1\.features\.k8s\.io, .*`, "register", "--kubeconfig="+someone, "--namespace="+namespace)
	if stdout != "" {
		t.Errorf("register said:\n%s", stdout)
	}

	// Who may change everything but not hand out rights is told which.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "almost"}, Rules: []rbacv1.PolicyRule{{
		Verbs:     []string{"get", "create", "patch", "delete"},
		APIGroups: []string{"", "rbac.authorization.k8s.io", "apiregistration.k8s.io"},
		Resources: []string{"namespaces", "serviceaccounts", "secrets", "services", "clusterroles", "clusterrolebindings", "roles", "rolebindings", "apiservices"},
	}, {
		Verbs: []string{"*"}, APIGroups: []string{"features.k8s.io", "multicluster.k8s.io", "node.k8s.io", "flowcontrol.apiserver.k8s.io", "admissionregistration.k8s.io", "coordination.k8s.io", "events.k8s.io"}, Resources: []string{"*"},
	}, {
		Verbs: []string{"get", "list", "watch", "update"}, APIGroups: []string{""}, Resources: []string{"namespaces", "secrets", "configmaps"},
	}}}
	if _, err := host.Kubernetes.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "almost"},
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "almost"},
		Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "someone"}}}
	if _, err := host.Kubernetes.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "only the rights to delegate, to aggregate and to read metrics are missing", func(context.Context) error {
		_, stderr, err := annexCommand(t, "register", "--kubeconfig="+someone, "--namespace="+namespace)
		want := "missing: create subjectaccessreviews.authorization.k8s.io; create tokenreviews.authentication.k8s.io; escalate clusterroles.rbac.authorization.k8s.io (annex-policy-parameters); get /metrics; ask"
		if err == nil || !strings.Contains(stderr, want) {
			return errors.New(stderr)
		}
		return nil
	})
	if found := own(t); found != nil {
		t.Errorf("register made %v", found)
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io", "authorization.k8s.io"}, Resources: []string{"tokenreviews", "subjectaccessreviews"}},
		rbacv1.PolicyRule{Verbs: []string{"escalate"}, APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles"}, ResourceNames: []string{"annex-policy-parameters"}},
		rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}})
	if _, err := host.Kubernetes.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "someone with exactly these rights registers", func(context.Context) error {
		_, stderr, err := annexCommand(t, "register", "--kubeconfig="+someone, "--namespace="+namespace)
		if err != nil {
			return errors.New(stderr)
		}
		return nil
	})
}

func TestRegisterWithoutACluster(t *testing.T) {
	away, err := host.Identity("away")
	if err != nil {
		t.Fatal(err)
	}
	config := kubeconfigFor(t, away, "https://127.0.0.1:1")
	wantAnnexError(t, `the cluster at https://127\.0\.0\.1:1 does not answer: .*connection refused; see that it runs`, "register", "--kubeconfig="+config)
}

func apiServicesOf(t *testing.T) interface {
	List(context.Context, metav1.ListOptions) (*apiregistrationv1.APIServiceList, error)
	Get(context.Context, string, metav1.GetOptions) (*apiregistrationv1.APIService, error)
	Create(context.Context, *apiregistrationv1.APIService, metav1.CreateOptions) (*apiregistrationv1.APIService, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
} {
	t.Helper()
	client, err := apiregistration.NewForConfig(host.Config)
	if err != nil {
		t.Fatal(err)
	}
	return client.ApiregistrationV1().APIServices()
}
