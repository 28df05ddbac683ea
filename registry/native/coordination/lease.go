// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/resource"
)

func leases() resource.Kind[*coordinationv1.Lease] {
	return resource.Kind[*coordinationv1.Lease]{
		Plural: "leases", Singular: "lease",
		NewList:        func() runtime.Object { return &coordinationv1.LeaseList{} },
		Validate:       validateLease,
		ValidateUpdate: func(lease, _ *coordinationv1.Lease) field.ErrorList { return validateLease(lease) },
		Columns: []resource.Column[*coordinationv1.Lease]{{
			Name: "Holder", Description: coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"],
			Of: func(lease *coordinationv1.Lease) any {
				if lease.Spec.HolderIdentity == nil {
					return ""
				}
				return *lease.Spec.HolderIdentity
			},
		}},
		CreateOnUpdate: true,
		Companion:      &resource.Companion[*coordinationv1.Lease]{Key: FenceKey, Value: fenceValue},
	}
}

func validateLease(lease *coordinationv1.Lease) field.ErrorList {
	var errs field.ErrorList
	path, spec := field.NewPath("spec"), lease.Spec
	if spec.LeaseDurationSeconds != nil && *spec.LeaseDurationSeconds <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *spec.LeaseDurationSeconds, "must be greater than 0"))
	}
	if spec.LeaseTransitions != nil && *spec.LeaseTransitions < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), *spec.LeaseTransitions, "must be greater than or equal to 0"))
	}
	// Coordinated election needs LeaseCandidates and a coordinator, which are not served: better refused than ignored.
	if spec.Strategy != nil {
		errs = append(errs, field.Forbidden(path.Child("strategy"), "this server does not coordinate elections; leave it unset"))
	}
	if spec.PreferredHolder != nil {
		errs = append(errs, field.Forbidden(path.Child("preferredHolder"), "this server does not coordinate elections; leave it unset"))
	}
	return errs
}
