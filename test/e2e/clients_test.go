// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	multiclusterapply "github.com/kube-annex/annex/generated/applyconfiguration/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework/poll"
)

func claim(name, value string) *v1alpha1.ClusterClaim {
	return &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterClaimSpec{Value: value}}
}

// clientsSpeakProtobuf looks at what the generated clients send and get through the aggregator.
func clientsSpeakProtobuf(t *testing.T, _ *annex) {
	config := rest.CopyConfig(host.Config)
	seen := &contentTypes{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { seen.next = next; return seen })
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	claims := client.MulticlusterV1alpha1().ClusterClaims()
	if _, err := claims.Create(t.Context(), claim("protobuf.example.com", "a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := claims.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	events, err := claims.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=protobuf.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	events.Stop()
	if err := claims.Delete(t.Context(), "protobuf.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	const protobuf = "application/vnd.kubernetes.protobuf"
	want := []string{
		"POST " + protobuf + " answered with " + protobuf,
		"GET  answered with " + protobuf,
		"GET  answered with " + protobuf + ";stream=watch",
		"DELETE " + protobuf + " answered with " + protobuf,
	}
	if diff := cmp.Diff(want, seen.seen); diff != "" {
		t.Errorf("content types (-want,+got):\n%s", diff)
	}
}

// contentTypes notes what goes over the wire.
type contentTypes struct {
	next http.RoundTripper
	seen []string
}

func (c *contentTypes) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err == nil {
		c.seen = append(c.seen, fmt.Sprintf("%s %s answered with %s", request.Method, request.Header.Get("Content-Type"), response.Header.Get("Content-Type")))
	}
	return response, err
}

// watchesAreComplete has 20 watchers follow a claim through the aggregator; each sees each change once, in order.
func watchesAreComplete(t *testing.T, a *annex) {
	const watchers, changes = 20, 25
	const name = "watched.example.com"
	claims := a.client.MulticlusterV1alpha1().ClusterClaims()
	before, err := claims.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var watching sync.WaitGroup
	seen := make([][]string, watchers)
	for i := range watchers {
		events, err := claims.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion, FieldSelector: "metadata.name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		watching.Go(func() {
			defer events.Stop()
			for event := range events.ResultChan() {
				got, ok := event.Object.(*v1alpha1.ClusterClaim)
				if !ok {
					seen[i] = append(seen[i], fmt.Sprintf("%s %T", event.Type, event.Object))
					return
				}
				seen[i] = append(seen[i], fmt.Sprintf("%s %s", event.Type, got.Spec.Value))
				if event.Type == watch.Deleted {
					return
				}
			}
		})
	}

	want := []string{"ADDED 0"}
	if _, err := claims.Create(ctx, claim(name, "0"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= changes; i++ {
		patch := fmt.Appendf(nil, `{"spec":{"value":"%d"}}`, i)
		if _, err := claims.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("MODIFIED %d", i))
	}
	if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want = append(want, fmt.Sprintf("DELETED %d", changes))
	watching.Wait()
	for i := range watchers {
		if diff := cmp.Diff(want, seen[i]); diff != "" {
			t.Errorf("watcher %d (-want,+got):\n%s", i, diff)
		}
	}
}

func applyHasOwners(t *testing.T, a *annex) {
	claims := a.client.MulticlusterV1alpha1().ClusterClaims()
	apply := func(value, owner string, force bool) (*v1alpha1.ClusterClaim, error) {
		wanted := multiclusterapply.ClusterClaim("owned.example.com").WithSpec(multiclusterapply.ClusterClaimSpec().WithValue(value))
		return claims.Apply(t.Context(), wanted, metav1.ApplyOptions{FieldManager: owner, Force: force})
	}
	first, err := apply("a", "one", false)
	if err != nil {
		t.Fatal(err)
	}
	again, err := apply("a", "one", false)
	if err != nil || again.ResourceVersion != first.ResourceVersion {
		t.Errorf("a repeated apply moved resourceVersion from %s to %v (%v)", first.ResourceVersion, again, err)
	}
	if _, err := apply("b", "two", false); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "spec.value") {
		t.Errorf("apply of another's field: %v, want a conflict at spec.value", err)
	}
	taken, err := apply("b", "two", true)
	if err != nil {
		t.Fatal(err)
	}
	var owners []string
	for _, entry := range taken.ManagedFields {
		owners = append(owners, fmt.Sprint(entry.Manager, " ", entry.Operation))
	}
	if diff := cmp.Diff([]string{"two Apply"}, owners); diff != "" {
		t.Errorf("owners after a forced apply (-want,+got):\n%s", diff)
	}
}

func collectionIsDeletedByLabel(t *testing.T, a *annex) {
	claims := a.client.MulticlusterV1alpha1().ClusterClaims()
	for i := range 20 {
		next := claim(fmt.Sprintf("collection-%d.example.com", i), "x")
		next.Labels = map[string]string{"collection": fmt.Sprint(i%2 == 0)}
		if _, err := claims.Create(t.Context(), next, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := claims.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "collection=true"}); err != nil {
		t.Fatal(err)
	}
	left, err := claims.List(t.Context(), metav1.ListOptions{LabelSelector: "collection"})
	if err != nil {
		t.Fatal(err)
	}
	even := func(claim v1alpha1.ClusterClaim) bool { return claim.Labels["collection"] == "true" }
	if len(left.Items) != 10 || slices.ContainsFunc(left.Items, even) {
		t.Errorf("%d claims are left, want the 10 odd ones", len(left.Items))
	}
}

// rightsAreTheClusters gives a user a role in the cluster and takes it away again.
func rightsAreTheClusters(t *testing.T, a *annex) {
	kubeconfig, err := host.Identity("alice", "people")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list := func(ctx context.Context) error {
		_, err := client.NodeV1alpha1().NodeBalloons().List(ctx, metav1.ListOptions{})
		return err
	}
	if err := list(t.Context()); !apierrors.IsForbidden(err) {
		t.Fatalf("list without rights: %v, want Forbidden", err)
	}
	roles, bindings := host.Kubernetes.RbacV1().ClusterRoles(), host.Kubernetes.RbacV1().ClusterRoleBindings()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "e2e-alice"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"list"}, APIGroups: []string{"node.k8s.io"}, Resources: []string{"nodeballoons"}},
	}}
	if _, err := roles.Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-alice"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "alice"}},
	}
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "alice may list", list)
	if err := bindings.Delete(t.Context(), binding.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "alice may no longer list", func(ctx context.Context) error {
		if err := list(ctx); !apierrors.IsForbidden(err) {
			return errors.New("she may")
		}
		return nil
	})
}
