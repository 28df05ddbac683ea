// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	multiclusterapply "github.com/kube-annex/annex/generated/applyconfiguration/multicluster/v1alpha1"
	claimsclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/multicluster/v1alpha1"
	"github.com/kube-annex/annex/test/framework/poll"
)

// identity is the claims as a user sees them who has these rights.
func identity(t *testing.T, name string, rules ...rbacv1.PolicyRule) claimsclient.ClusterClaimInterface {
	t.Helper()
	kubeconfig, err := host.Identity(name)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	if len(rules) > 0 {
		rbac, meta := host.Kubernetes.RbacV1(), metav1.ObjectMeta{Name: "e2e-claims-" + name}
		if _, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		}
		if _, err := rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			_ = rbac.ClusterRoleBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{})
			_ = rbac.ClusterRoles().Delete(ctx, meta.Name, metav1.DeleteOptions{})
		})
	}
	return claimsOf(t, config)
}

func claimRule(verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"clusterclaims"}, ResourceNames: names}
}

// claimWrites is every way to write one claim, which has to exist for some.
var claimWrites = map[string]func(ctx context.Context, claims claimsclient.ClusterClaimInterface, name string) error{
	"create": func(ctx context.Context, claims claimsclient.ClusterClaimInterface, name string) error {
		_, err := claims.Create(ctx, claim(name, "a"), metav1.CreateOptions{})
		return err
	},
	"apply": func(ctx context.Context, claims claimsclient.ClusterClaimInterface, name string) error {
		wanted := multiclusterapply.ClusterClaim(name).WithSpec(multiclusterapply.ClusterClaimSpec().WithValue("a"))
		_, err := claims.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "e2e", Force: true})
		return err
	},
	"update": func(ctx context.Context, claims claimsclient.ClusterClaimInterface, name string) error {
		current, err := claims.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading before the update: %w", err)
		}
		current.Spec.Value = "b"
		_, err = claims.Update(ctx, current, metav1.UpdateOptions{})
		return err
	},
	"patch": func(ctx context.Context, claims claimsclient.ClusterClaimInterface, name string) error {
		_, err := claims.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"value":"c"}}`), metav1.PatchOptions{})
		return err
	},
	"delete": func(ctx context.Context, claims claimsclient.ClusterClaimInterface, name string) error {
		return claims.Delete(ctx, name, metav1.DeleteOptions{})
	},
	"delete of a collection": func(ctx context.Context, claims claimsclient.ClusterClaimInterface, name string) error {
		return claims.DeleteCollection(ctx, metav1.DeleteOptions{}, named(name))
	},
}

func reservedNamesNeedTheVerb(t *testing.T, a *annex) {
	const all = "get list watch create update patch delete deletecollection"
	admin := a.client.MulticlusterV1alpha1().ClusterClaims()
	writer := identity(t, "writer", claimRule(all))
	curator := identity(t, "curator", claimRule(all), claimRule("reserve", "network.k8s.io"))
	for user, claims := range map[string]claimsclient.ClusterClaimInterface{"the writer": writer, "the curator": curator} {
		poll.Eventually(t, patience, user+" may list", func(ctx context.Context) error {
			_, err := claims.List(ctx, metav1.ListOptions{})
			return err
		})
	}
	for _, name := range []string{"network.k8s.io", "a.b.k8s.io", "network.kubernetes.io", "sigs.k8s.io", "mysigs.k8s.io"} {
		for verb, write := range claimWrites {
			if verb != "create" {
				if _, err := admin.Create(t.Context(), claim(name, "a"), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
					t.Fatal(err)
				}
			}
			if err := write(t.Context(), writer, name); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `verb "reserve"`) {
				t.Errorf("%s of %s by one without the verb: %v, want 403 that names it", verb, name, err)
			}
			err := write(t.Context(), curator, name)
			switch {
			case name == "network.k8s.io" && err != nil && !apierrors.IsAlreadyExists(err):
				t.Errorf("%s of %s by one who has the verb for it: %v", verb, name, err)
			case name != "network.k8s.io" && !apierrors.IsForbidden(err):
				t.Errorf("%s of %s by one who has the verb for another name: %v, want 403", verb, name, err)
			}
			if err := admin.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"k8s.io", "kubernetes.io", "notk8s.io", "network.k8s.io.example.com", "k8s.io-network"} {
		if err := claimWrites["create"](t.Context(), writer, name); err != nil {
			t.Errorf("creating %s, which is nobody's: %v", name, err)
		}
		if err := claimWrites["delete"](t.Context(), writer, name); err != nil {
			t.Error(err)
		}
	}
}

// rightsArePerClaim has one who may do everything with one claim, and another who has no rights.
func rightsArePerClaim(t *testing.T, a *annex) {
	const mine, others = "mine.example.com", "others.example.com"
	admin := a.client.MulticlusterV1alpha1().ClusterClaims()
	for _, name := range []string{mine, others} {
		if _, err := admin.Create(t.Context(), claim(name, "x"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	owner := identity(t, "owner", claimRule("get list watch update patch delete deletecollection", mine))
	poll.Eventually(t, patience, "the owner may read", func(ctx context.Context) error {
		_, err := owner.Get(ctx, mine, metav1.GetOptions{})
		return err
	})
	reads := map[string]func(claims claimsclient.ClusterClaimInterface, name string) error{
		"get": func(claims claimsclient.ClusterClaimInterface, name string) error {
			_, err := claims.Get(t.Context(), name, metav1.GetOptions{})
			return err
		},
		"list": func(claims claimsclient.ClusterClaimInterface, name string) error {
			_, err := claims.List(t.Context(), named(name))
			return err
		},
		"watch": func(claims claimsclient.ClusterClaimInterface, name string) error {
			events, err := claims.Watch(t.Context(), named(name))
			if err == nil {
				events.Stop()
			}
			return err
		},
	}
	for verb, read := range reads {
		if err := read(owner, mine); err != nil {
			t.Errorf("%s of the own claim: %v", verb, err)
		}
		if err := read(owner, others); !apierrors.IsForbidden(err) {
			t.Errorf("%s of another's: %v, want 403", verb, err)
		}
	}
	if _, err := owner.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a list of all: %v, want 403", err)
	}
	for _, verb := range []string{"update", "patch", "delete of a collection", "delete"} {
		// The read before an update is refused as well.
		if err := claimWrites[verb](t.Context(), owner, others); !apierrors.IsForbidden(err) {
			t.Errorf("%s of another's: %v, want 403", verb, err)
		}
	}
	current, err := admin.Get(t.Context(), others, metav1.GetOptions{})
	if err != nil || current.Generation != 1 {
		t.Errorf("another's claim is %v (%v), want it as it was made", current, err)
	} else if _, err := owner.Update(t.Context(), current, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("an update of another's: %v, want 403", err)
	}
	for _, verb := range []string{"update", "patch", "delete"} {
		if err := claimWrites[verb](t.Context(), owner, mine); err != nil {
			t.Errorf("%s of the own claim: %v", verb, err)
		}
	}
	// A right to create cannot be for one name.
	if err := claimWrites["create"](t.Context(), owner, mine); !apierrors.IsForbidden(err) {
		t.Errorf("create: %v, want 403", err)
	}

	// Everybody may read the two well-known claims by name, whether they exist or not, and nothing else.
	somebody := identity(t, "somebody")
	for verb, read := range reads {
		for _, name := range []string{idClaim, setClaim} {
			if err := read(somebody, name); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("%s of %s by somebody: %v", verb, name, err)
			}
		}
		if err := read(somebody, others); !apierrors.IsForbidden(err) {
			t.Errorf("%s of %s by somebody: %v, want 403", verb, others, err)
		}
	}
	for verb, write := range claimWrites {
		if err := write(t.Context(), somebody, others); !apierrors.IsForbidden(err) {
			t.Errorf("%s by somebody: %v, want 403", verb, err)
		}
	}
}
