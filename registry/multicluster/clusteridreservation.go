// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/multicluster/validation"
	"github.com/kube-annex/annex/registry/resource"
)

var clusterIDReservations = resource.Kind[*multicluster.ClusterIDReservation]{
	Plural:   "clusteridreservations",
	Singular: "clusteridreservation",
	Scope:    resource.Cluster,
	NewList:  func() runtime.Object { return &multicluster.ClusterIDReservationList{} },

	PrepareForCreate:     setOwner,
	Validate:             validation.ValidateClusterIDReservation,
	ValidateUpdate:       validation.ValidateClusterIDReservationUpdate,
	ValidateStatusUpdate: validation.ValidateClusterIDReservationStatusUpdate,

	SelectableFields: map[string]func(*multicluster.ClusterIDReservation) string{
		"spec.clusterSet": func(r *multicluster.ClusterIDReservation) string { return r.Spec.ClusterSet },
		"spec.clusterID":  func(r *multicluster.ClusterIDReservation) string { return r.Spec.ClusterID },
		"spec.clusterUID": func(r *multicluster.ClusterIDReservation) string { return string(r.Spec.ClusterUID) },
	},
	Columns: []resource.Column[*multicluster.ClusterIDReservation]{
		{Name: "Set", Description: "Set of clusters in which the id is reserved.", Of: func(r *multicluster.ClusterIDReservation) any { return r.Spec.ClusterSet }},
		{Name: "ID", Description: "Id that is reserved.", Of: func(r *multicluster.ClusterIDReservation) any { return r.Spec.ClusterID }},
		{Name: "Owner", Description: "User who made the reservation.", Of: func(r *multicluster.ClusterIDReservation) any { return r.Status.Owner }},
		{Name: "Cluster UID", Description: "Cluster for which the id is reserved.", Priority: 1, Of: func(r *multicluster.ClusterIDReservation) any { return string(r.Spec.ClusterUID) }},
	},
}

// setOwner records who makes the reservation; the hub trusts its own authentication and not the request.
func setOwner(ctx context.Context, reservation *multicluster.ClusterIDReservation) {
	if user, ok := genericapirequest.UserFrom(ctx); ok {
		reservation.Status.Owner = user.GetName()
	}
}
