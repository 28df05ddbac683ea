// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	multiclusterinstall "github.com/kube-annex/annex/apis/multicluster/install"
	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/registry/multicluster"
	"github.com/kube-annex/annex/server/extension/admission"
)

func TestWhoChangesAReservation(t *testing.T) {
	t.Parallel()
	plugin := admission.NewReservationOwner()
	plugin.SetAuthorizer(onlyCurator{})
	server := start(t, multiclusterv1alpha1.SchemeGroupVersion, multiclusterinstall.Install, multicluster.Install, plugin)
	name := multiclusterv1alpha1.ReservationName("fleet", "one")
	alice := as(t, server, "alice").MulticlusterV1alpha1().ClusterIDReservations()
	if _, err := alice.Create(t.Context(), &multiclusterv1alpha1.ClusterIDReservation{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"annex.test/hold"}},
		Spec:       multiclusterv1alpha1.ClusterIDReservationSpec{ClusterSet: "fleet", ClusterID: "one", ClusterUID: "u", ClaimUID: "c"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patchAs := func(user, patch string) error {
		_, err := as(t, server, user).MulticlusterV1alpha1().ClusterIDReservations().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	const takeOver = `{"metadata":{"annotations":{"annex.io/claim-uid":"mine"}}}`
	wantForbidden(t, "another user", patchAs("mallory", takeOver), `"alice"`)
	for _, user := range []string{"alice", "curator"} {
		if err := patchAs(user, takeOver); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	if err := alice.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := patchAs("collector", `{"metadata":{"finalizers":null}}`); err != nil {
		t.Errorf("taking a finalizer off what is being deleted: %v", err)
	}
}
