// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
)

// ValidateClusterIDReservationName says what is wrong with the name of a ClusterIDReservation, as far as the name alone tells.
func ValidateClusterIDReservationName(name string, prefix bool) []string {
	return apivalidation.NameIsDNSSubdomain(name, prefix)
}

// ValidateClusterIDReservation says what is wrong with a ClusterIDReservation, its status left aside.
func ValidateClusterIDReservation(reservation *multicluster.ClusterIDReservation) field.ErrorList {
	spec, path := &reservation.Spec, field.NewPath("spec")
	errs := validateRequiredFormat(path.Child("clusterSet"), spec.ClusterSet, "the name of a cluster set", validation.IsDNS1123Subdomain)
	errs = append(errs, validateRequiredFormat(path.Child("clusterID"), spec.ClusterID, "a cluster id", validation.IsDNS1123Label)...)
	// The name says nothing new while what it is made from is wrong.
	if len(errs) == 0 {
		if want := v1alpha1.ReservationName(spec.ClusterSet, spec.ClusterID); reservation.Name != want {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), reservation.Name, fmt.Sprintf(
				"must be %s, the hexadecimal SHA-256 of spec.clusterSet, a zero byte and spec.clusterID", want)))
		}
	}
	errs = append(errs, validateUID(path.Child("clusterUID"), spec.ClusterUID, "the uid of the member's kube-system namespace")...)
	return append(errs, validateUID(path.Child("claimUID"), spec.ClaimUID, "the uid of the member's ClusterClaim "+multicluster.ClaimID)...)
}

// ValidateClusterIDReservationUpdate says what is wrong with a ClusterIDReservation that replaces an old one, its status
// left aside.
func ValidateClusterIDReservationUpdate(reservation, old *multicluster.ClusterIDReservation) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	immutable := func(name, value, old string) {
		if value != old {
			errs = append(errs, field.Invalid(path.Child(name), shown(value), fmt.Sprintf(
				"cannot be changed from %q; delete the reservation and make a new one", shown(old))))
		}
	}
	immutable("clusterSet", reservation.Spec.ClusterSet, old.Spec.ClusterSet)
	immutable("clusterID", reservation.Spec.ClusterID, old.Spec.ClusterID)
	immutable("clusterUID", string(reservation.Spec.ClusterUID), string(old.Spec.ClusterUID))
	immutable("claimUID", string(reservation.Spec.ClaimUID), string(old.Spec.ClaimUID))
	return errs
}

// ValidateClusterIDReservationStatusUpdate says what is wrong with the status of a ClusterIDReservation that replaces an
// old one.
func ValidateClusterIDReservationStatusUpdate(reservation, old *multicluster.ClusterIDReservation) field.ErrorList {
	if old.Status.Owner != "" && reservation.Status.Owner != old.Status.Owner {
		return field.ErrorList{field.Invalid(field.NewPath("status", "owner"), shown(reservation.Status.Owner), fmt.Sprintf(
			"cannot be changed from %q; another owner makes a reservation of its own after this one was deleted", shown(old.Status.Owner)))}
	}
	return nil
}

func validateRequiredFormat(path *field.Path, value, what string, problems func(string) []string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "must be "+what)}
	}
	return validateFormat(path, value, what, problems)
}

func validateUID(path *field.Path, uid types.UID, what string) field.ErrorList {
	if uid == "" {
		return field.ErrorList{field.Required(path, "must be "+what)}
	}
	return nil
}
