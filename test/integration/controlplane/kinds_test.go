// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

func TestNamespaces(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	client := core(t, h.Admin())
	namespaces := client.CoreV1().Namespaces()

	for _, name := range []string{"default", "kube-system", "kube-public", "annex-system"} {
		if _, err := namespaces.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("ready, but: %v", err)
		}
	}
	created, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kubernetes.io/metadata.name": created.Name}},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}},
		Status:     corev1.NamespaceStatus{Phase: "Active"},
	}
	got := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: created.Labels}, Spec: created.Spec, Status: created.Status}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created namespace (-want,+got):\n%s", diff)
	}
	created.Spec.Finalizers = nil
	if updated, err := namespaces.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil || len(updated.Spec.Finalizers) != 1 {
		t.Errorf("an update took the finalizer off: %v, %v", updated, err)
	}
	if active, err := namespaces.List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Active"}); err != nil || len(active.Items) != 5 {
		t.Errorf("listing active namespaces: %d, %v", len(active.Items), err)
	}
	_, err = client.CoreV1().ConfigMaps("nowhere").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("creating in a namespace that does not exist: got %v, want 404", err)
	}
}

func TestConfigMapsAndSecrets(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	client := core(t, h.Admin())
	namespace := h.namespace(t)
	secrets := client.CoreV1().Secrets(namespace)

	secret, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		StringData: map[string]string{"password": "p"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&corev1.Secret{Data: map[string][]byte{"password": []byte("p")}, Type: "Opaque"},
		&corev1.Secret{Data: secret.Data, StringData: secret.StringData, Type: secret.Type}); diff != "" {
		t.Errorf("created secret (-want,+got):\n%s", diff)
	}
	patched, err := secrets.Patch(t.Context(), "s", types.MergePatchType, []byte(`{"stringData":{"user":"u"}}`), metav1.PatchOptions{})
	if err != nil || string(patched.Data["user"]) != "u" || string(patched.Data["password"]) != "p" || patched.StringData != nil {
		t.Errorf("patching stringData: %v, %v", patched, err)
	}
	if _, err := secrets.Patch(t.Context(), "s", types.MergePatchType, []byte(`{"type":"example.com/other"}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("changing the type: got %v, want 422", err)
	}
	if list, err := secrets.List(t.Context(), metav1.ListOptions{FieldSelector: "type=Opaque"}); err != nil || len(list.Items) != 1 {
		t.Errorf("selecting by type: %v, %v", list, err)
	}

	var written []string
	for range 2 {
		applied, err := secrets.Apply(t.Context(), applycorev1.Secret("applied", namespace).WithStringData(map[string]string{"a": "b"}), metav1.ApplyOptions{FieldManager: "test"})
		if err != nil {
			t.Fatal(err)
		}
		written = append(written, applied.ResourceVersion)
	}
	if written[0] != written[1] {
		t.Errorf("applying the same stringData twice wrote twice: %v", written)
	}

	configMaps := client.CoreV1().ConfigMaps(namespace)
	apply := applycorev1.ConfigMap("c", namespace).WithData(map[string]string{"a": "1"})
	var versions []string
	for range 2 {
		applied, err := configMaps.Apply(t.Context(), apply, metav1.ApplyOptions{FieldManager: "test"})
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, applied.ResourceVersion)
	}
	if versions[0] != versions[1] {
		t.Errorf("applying the same twice wrote twice: %v", versions)
	}
	_, err = configMaps.Apply(t.Context(), applycorev1.ConfigMap("c", namespace).WithData(map[string]string{"a": "2"}), metav1.ApplyOptions{FieldManager: "other"})
	if !apierrors.IsConflict(err) {
		t.Errorf("applying another's field: got %v, want 409", err)
	}
	if _, err := configMaps.Patch(t.Context(), "c", types.StrategicMergePatchType, []byte(`{"immutable":true}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := configMaps.Patch(t.Context(), "c", types.JSONPatchType, []byte(`[{"op":"replace","path":"/data/a","value":"3"}]`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("changing an immutable ConfigMap: got %v, want 422", err)
	}
	if err := configMaps.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func TestObjectsOutliveARestart(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	t.Logf("first start: ready after %s, etcd included", h.Startup)
	uids := func() map[string]types.UID {
		client := core(t, h.Admin())
		return map[string]types.UID{
			"namespace": uidOf(t, func(ctx context.Context) (metav1.Object, error) {
				return client.CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{})
			}),
			"secret": uidOf(t, func(ctx context.Context) (metav1.Object, error) {
				return client.CoreV1().Secrets("kept").Get(ctx, "s", metav1.GetOptions{})
			}),
			"lease": uidOf(t, func(ctx context.Context) (metav1.Object, error) {
				return client.CoordinationV1().Leases("kept").Get(ctx, "l", metav1.GetOptions{})
			}),
			"trust": uidOf(t, func(ctx context.Context) (metav1.Object, error) {
				return client.CoreV1().ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
			}),
		}
	}
	createKept(t, core(t, h.Admin()))
	before := uids()
	h.Stop()
	h.Start()
	t.Logf("second start: ready after %s, etcd included", h.Startup)
	if diff := cmp.Diff(before, uids()); diff != "" {
		t.Errorf("objects after the restart (-want,+got):\n%s", diff)
	}
}

func createKept(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: meta("kept")}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets("kept").Create(t.Context(), &corev1.Secret{ObjectMeta: meta("s")}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: meta("l"), Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me"), LeaseDurationSeconds: ptr.To[int32](10)}}
	if _, err := client.CoordinationV1().Leases("kept").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func uidOf(t *testing.T, get func(context.Context) (metav1.Object, error)) types.UID {
	t.Helper()
	obj, err := get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return obj.GetUID()
}
