// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/sharedtests"
)

func TestAdmissionOfTheHost(t *testing.T) {
	t.Parallel()
	f := startFrontDoor(t)
	admin := f.user(t, "admin", "system:masters")
	sharedtests.Admission(t, f.Config, &rest.Config{Host: f.direct, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		Insecure: true, CertFile: admin.CertFile, KeyFile: admin.KeyFile,
	}})
}

// TestAHostWithoutPolicies has no kinds to configure admission with, and Annex goes without.
func TestAHostWithoutPolicies(t *testing.T) {
	t.Parallel()
	s := framework.Start(t, func(o *standalone.Options) {
		o.ControlPlane.DisabledResources = []schema.GroupResource{{Group: "admissionregistration.k8s.io"}}
	})
	claim := &multiclusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "a.example.com"}, Spec: multiclusterv1alpha1.ClusterClaimSpec{Value: "x"}}
	if _, err := s.Annex.MulticlusterV1alpha1().ClusterClaims().Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}
