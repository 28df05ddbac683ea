// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/admissiontest"
)

// TestPoliciesAreTypeChecked has expressions about a native and a custom kind checked against their schemas.
func TestPoliciesAreTypeChecked(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	createWidgetDefinition(t, h.Admin())
	waitForSchema(t, h)
	client := core(t, h.Admin())
	policies := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	for name, tc := range map[string]struct {
		constraints  *admissionregistrationv1.MatchResources
		wrong, right string
	}{
		"native": {admissiontest.Constraints("", "v1", "configmaps", "elsewhere"), "object.data['many'] == 3", "object.data['many'] == '3'"},
		"custom": {admissiontest.Constraints("example.com", "v1", "widgets", "elsewhere"), "object.spec.size == 'large'", "object.spec.size == 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
					MatchConstraints: tc.constraints, Validations: []admissionregistrationv1.Validation{{Expression: tc.wrong}},
				},
			}
			if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			warnings := waitChecked(t, client, name, 1)
			if len(warnings) != 1 || warnings[0].FieldRef != "spec.validations[0].expression" || !strings.Contains(warnings[0].Warning, "no matching overload") {
				t.Errorf("the warnings about %s are %+v", tc.wrong, warnings)
			}
			if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
				policy, err := policies.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				policy.Spec.Validations[0].Expression = tc.right
				_, err = policies.Update(t.Context(), policy, metav1.UpdateOptions{})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if warnings := waitChecked(t, client, name, 2); len(warnings) != 0 {
				t.Errorf("the warnings about %s are %+v", tc.right, warnings)
			}
		})
	}
}

// waitForSchema returns when widgets are in OpenAPI.
func waitForSchema(t *testing.T, h *host) {
	t.Helper()
	eventually(t, func() error {
		document, err := core(t, h.Admin()).Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/example.com/v1").DoRaw(t.Context())
		if err == nil && !strings.Contains(string(document), "how large the widget is") {
			err = fmt.Errorf("the kind's OpenAPI is not published: %.200s", document)
		}
		return err
	})
}

// waitChecked returns the warnings about a policy in a generation.
func waitChecked(t *testing.T, client kubernetes.Interface, name string, generation int64) []admissionregistrationv1.ExpressionWarning {
	t.Helper()
	var status admissionregistrationv1.ValidatingAdmissionPolicyStatus
	eventually(t, func() error {
		policy, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status = policy.Status; status.ObservedGeneration != generation {
			return fmt.Errorf("the status is %+v, want that of generation %d", status, generation)
		}
		return nil
	})
	if status.TypeChecking == nil {
		return nil
	}
	return status.TypeChecking.ExpressionWarnings
}

const identityLabel = "apiserver.kubernetes.io/identity"

// identities returns the Leases of replicas.
func identities(t *testing.T, client kubernetes.Interface) []coordinationv1.Lease {
	t.Helper()
	list, err := client.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: identityLabel + "=annex-controlplane"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestReplicasAreKnownByTheirLeases(t *testing.T) {
	t.Parallel()
	replicas := startReplicas(t, "one", "two")
	client := replicas[1].client
	waitNumber := func(want int) {
		t.Helper()
		eventually(t, func() error {
			if got := len(identities(t, client)); got != want {
				return fmt.Errorf("there are Leases of %d replicas, want %d", got, want)
			}
			return nil
		})
	}
	waitNumber(2)
	for _, lease := range identities(t, client) {
		if !strings.HasPrefix(lease.Name, "annex-controlplane-") || !strings.HasPrefix(ptr.Deref(lease.Spec.HolderIdentity, ""), lease.Name+"_") ||
			ptr.Deref(lease.Spec.LeaseDurationSeconds, 0) != 3600 || time.Since(lease.Spec.RenewTime.Time) > time.Minute || lease.Labels["kubernetes.io/hostname"] == "" {
			t.Errorf("the Lease is %+v", lease)
		}
	}
	// A replica that was killed an hour ago, and one of another server.
	for name, server := range map[string]string{"killed": "annex-controlplane", "other": "kube-apiserver"} {
		old := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{identityLabel: server}},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To(name), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-2 * time.Hour))),
			},
		}
		if _, err := client.CoordinationV1().Leases("kube-system").Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitNumber(3)
	replicas[0].stop(t)
	// It has taken its own away, and who leads now looks for those that have run out.
	waitNumber(1)
	if _, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(), "other", metav1.GetOptions{}); err != nil {
		t.Errorf("the Lease of another server: %v", err)
	}
}
