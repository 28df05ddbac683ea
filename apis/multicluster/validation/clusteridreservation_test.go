// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
)

func reservation(change func(*multicluster.ClusterIDReservation)) *multicluster.ClusterIDReservation {
	object := &multicluster.ClusterIDReservation{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ReservationName("fleet", "cluster-1")},
		Spec:       multicluster.ClusterIDReservationSpec{ClusterSet: "fleet", ClusterID: "cluster-1", ClusterUID: "u1", ClaimUID: "u2"},
	}
	if change != nil {
		change(object)
	}
	return object
}

func TestValidateClusterIDReservation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change       func(*multicluster.ClusterIDReservation)
		want         field.ErrorType
		path, detail string
	}{
		"valid":          {},
		"another's name": {change: func(r *multicluster.ClusterIDReservation) { r.Name = "x" }, want: field.ErrorTypeInvalid, path: "metadata.name", detail: "must be " + v1alpha1.ReservationName("fleet", "cluster-1")},
		"no set":         {change: func(r *multicluster.ClusterIDReservation) { r.Spec.ClusterSet = "" }, want: field.ErrorTypeRequired, path: "spec.clusterSet"},
		"no id":          {change: func(r *multicluster.ClusterIDReservation) { r.Spec.ClusterID = "" }, want: field.ErrorTypeRequired, path: "spec.clusterID"},
		"id with a dot":  {change: func(r *multicluster.ClusterIDReservation) { r.Spec.ClusterID = "a.b" }, want: field.ErrorTypeInvalid, path: "spec.clusterID"},
		"set with a bad character": {
			change: func(r *multicluster.ClusterIDReservation) { r.Spec.ClusterSet = "a_b" },
			want:   field.ErrorTypeInvalid, path: "spec.clusterSet",
		},
		"id with a newline": {
			change: func(r *multicluster.ClusterIDReservation) { r.Spec.ClusterID = "cluster-1\n" },
			want:   field.ErrorTypeInvalid, path: "spec.clusterID", detail: "ends with a newline",
		},
		"no uid of the cluster": {change: func(r *multicluster.ClusterIDReservation) { r.Spec.ClusterUID = "" }, want: field.ErrorTypeRequired, path: "spec.clusterUID", detail: "kube-system"},
		"no uid of the claim":   {change: func(r *multicluster.ClusterIDReservation) { r.Spec.ClaimUID = "" }, want: field.ErrorTypeRequired, path: "spec.claimUID", detail: "id.k8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantError(t, "create", ValidateClusterIDReservation(reservation(tc.change)), tc.want, tc.path, tc.detail)
		})
	}
}

func TestClusterIDReservationSpecIsImmutable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*multicluster.ClusterIDReservation)
		want   field.ErrorType
		path   string
	}{
		"nothing":    {},
		"metadata":   {change: func(r *multicluster.ClusterIDReservation) { r.Labels = map[string]string{"a": "b"} }},
		"status":     {change: func(r *multicluster.ClusterIDReservation) { r.Status.Owner = "alice" }},
		"clusterSet": {change: func(r *multicluster.ClusterIDReservation) { r.Spec.ClusterSet = "x" }, want: field.ErrorTypeInvalid, path: "spec.clusterSet"},
		"clusterID":  {change: func(r *multicluster.ClusterIDReservation) { r.Spec.ClusterID = "x" }, want: field.ErrorTypeInvalid, path: "spec.clusterID"},
		"clusterUID": {change: func(r *multicluster.ClusterIDReservation) { r.Spec.ClusterUID = "x" }, want: field.ErrorTypeInvalid, path: "spec.clusterUID"},
		"claimUID":   {change: func(r *multicluster.ClusterIDReservation) { r.Spec.ClaimUID = "" }, want: field.ErrorTypeInvalid, path: "spec.claimUID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantError(t, "update", ValidateClusterIDReservationUpdate(reservation(tc.change), reservation(nil)), tc.want, tc.path, "delete the reservation and make a new one")
		})
	}
}

func TestClusterIDReservationOwnerIsSetOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		from, to string
		want     field.ErrorType
	}{
		"none":    {},
		"set":     {to: "alice"},
		"kept":    {from: "alice", to: "alice"},
		"changed": {from: "alice", to: "bob", want: field.ErrorTypeInvalid},
		"cleared": {from: "alice", want: field.ErrorTypeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owned := func(owner string) *multicluster.ClusterIDReservation {
				return reservation(func(r *multicluster.ClusterIDReservation) { r.Status.Owner = owner })
			}
			wantError(t, "status", ValidateClusterIDReservationStatusUpdate(owned(tc.to), owned(tc.from)), tc.want, "status.owner", `from "alice"`)
		})
	}
}
