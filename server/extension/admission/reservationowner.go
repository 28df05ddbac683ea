// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/kube-annex/annex/apis/multicluster"
)

// ReservationOwnerName is the plugin's name in --enable-admission-plugins.
const ReservationOwnerName = "ClusterIDReservationOwner"

// ReservationOwner lets a ClusterIDReservation be changed and deleted by the user who made it, and by holders of the verb reserve on
// clusteridreservations: a cluster must not be able to free another cluster's id, or to take over its reservation. One that is
// being deleted is changed by whoever has put a finalizer there.
type ReservationOwner struct {
	*admission.Handler
	asksAuthorizer
}

// NewReservationOwner returns the plugin; it needs an authorizer before it is used.
func NewReservationOwner() *ReservationOwner {
	return &ReservationOwner{Handler: admission.NewHandler(admission.Update, admission.Delete)}
}

// Validate implements admission.ValidationInterface.
func (p *ReservationOwner) Validate(ctx context.Context, request admission.Attributes, _ admission.ObjectInterfaces) error {
	reservation, ok := request.GetOldObject().(*multicluster.ClusterIDReservation)
	if !ok || !concerns(request, multicluster.Resource("clusteridreservations")) || reservation.Status.Owner == request.GetUserInfo().GetName() {
		return nil
	}
	if request.GetOperation() == admission.Update && reservation.DeletionTimestamp != nil {
		return nil
	}
	allowed, err := p.mayReserve(ctx, request, reservation.Name)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if !allowed {
		return apierrors.NewForbidden(multicluster.Resource("clusteridreservations"), reservation.Name, fmt.Errorf(
			"the reservation belongs to %q; let its owner do this, or ask an administrator for the verb \"reserve\" on clusteridreservations.%s", reservation.Status.Owner, multicluster.GroupName))
	}
	return nil
}
