// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	features "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestDeletedFeatureSweepsNothing stores a gated field, tries to delete its Feature, and then loses the Feature all the same.
func TestDeletedFeatureSweepsNothing(t *testing.T) {
	t.Parallel()
	server := framework.Start(t, quickly, func(o *standalone.Options) {
		o.Extension.Lifecycle.Dynamic = []string{"annex-system/" + reclaimPolicy}
	})
	client := server.Annex.FeaturesV1alpha1().Features("annex-system")
	eventually(t, server, "annex-system", reclaimPolicy, is(features.StateOff, features.SourceDefault))
	if err := desire(t, server, "annex-system", reclaimPolicy, features.ValueEnabled); err != nil {
		t.Fatal(err)
	}
	eventually(t, server, "annex-system", reclaimPolicy, is(features.StateOn, features.SourceDynamic))
	createBalloon(t, server.Annex, "kept")

	// Role edit may delete Features, but not this one.
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "eve-edits"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "eve"}},
	}
	if _, err := server.Kubernetes.RbacV1().RoleBindings("annex-system").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(server.Config)
	config.Impersonate.UserName = "eve"
	eve, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for who, as := range map[string]versioned.Interface{"an administrator": server.Annex, "an editor": eve} {
		mine := as.FeaturesV1alpha1().Features("annex-system")
		for verb, err := range map[string]error{
			"delete":           mine.Delete(t.Context(), reclaimPolicy, metav1.DeleteOptions{}),
			"deletecollection": mine.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + reclaimPolicy}),
		} {
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "turn it off by spec.desired") {
				t.Errorf("%s by %s: got %v, want 403 with what to do instead", verb, who, err)
			}
		}
	}

	// It is lost all the same, as with a restored etcd: the deletion passes in the moment before the server says again that it is there.
	old, err := client.Get(t.Context(), reclaimPolicy, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		current, err := client.Get(ctx, reclaimPolicy, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		meta.SetStatusCondition(&current.Status.Conditions, metav1.Condition{Type: features.FeatureAvailable, Status: metav1.ConditionFalse, Reason: "Test"})
		if _, err = client.UpdateStatus(ctx, current, metav1.UpdateOptions{}); err == nil {
			err = client.Delete(ctx, reclaimPolicy, metav1.DeleteOptions{})
		}
		if apierrors.IsConflict(err) || apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, server, "annex-system", reclaimPolicy, func(f *features.Feature) string {
		if f.UID == old.UID || f.Status.State != features.StateTurningOff || len(f.Status.Tasks) == 0 ||
			f.Status.Tasks[0].Name != "ClearField" || f.Status.Tasks[0].State != features.TaskAwaitingConfirmation {
			return fmt.Sprintf("it is %s with tasks %+v, want a new object whose ClearField awaits confirmation", f.Status.State, f.Status.Tasks)
		}
		return ""
	})
	kept, err := server.Annex.NodeV1alpha1().NodeBalloons().Patch(t.Context(), "kept", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	if err != nil || kept.Spec.ReclaimPolicy == nil {
		t.Errorf("after an update while nobody has confirmed: %+v, %v; want the field kept", kept, err)
	}

	// The user confirms by setting the value: here, back to Enabled.
	if err := desire(t, server, "annex-system", reclaimPolicy, features.ValueEnabled); err != nil {
		t.Fatal(err)
	}
	eventually(t, server, "annex-system", reclaimPolicy, is(features.StateOn, features.SourceDynamic))
	if kept, err = server.Annex.NodeV1alpha1().NodeBalloons().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil || kept.Spec.ReclaimPolicy == nil {
		t.Errorf("when the feature is On again: %+v, %v; want the field kept", kept, err)
	}
	testNamespaceTakesItsFeatures(t, server)
}

// testNamespaceTakesItsFeatures deletes a namespace with a Feature that cannot be deleted by itself.
func testNamespaceTakesItsFeatures(t *testing.T, server *framework.Server) {
	t.Helper()
	namespaces := server.Kubernetes.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := server.Annex.FeaturesV1alpha1().Features("ending")
	feature, err := client.Create(t.Context(), &features.Feature{ObjectMeta: metav1.ObjectMeta{Name: "Frob"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	feature.Status = features.FeatureStatus{State: features.StateOn, Source: features.SourceCommandLine}
	meta.SetStatusCondition(&feature.Status.Conditions, metav1.Condition{Type: features.FeatureAvailable, Status: metav1.ConditionTrue, Reason: "Test"})
	if _, err = client.UpdateStatus(t.Context(), feature, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err = client.Delete(t.Context(), "Frob", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete the Feature alone: got %v, want 403", err)
	}
	if err = namespaces.Delete(t.Context(), "ending", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, time.Minute, "the namespace is gone", func(ctx context.Context) error {
		namespace, err := namespaces.Get(ctx, "ending", metav1.GetOptions{})
		return poll.Want(apierrors.IsNotFound(err), namespace)
	})
}
