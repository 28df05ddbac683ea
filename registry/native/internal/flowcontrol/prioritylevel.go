// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package flowcontrol

import (
	"fmt"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/shufflesharding"

	"github.com/kube-annex/annex/registry/resource"
)

type priorityLevel = flowcontrolv1.PriorityLevelConfiguration

func priorityLevels() resource.Kind[*priorityLevel] {
	return resource.Kind[*priorityLevel]{
		Plural: "prioritylevelconfigurations", Singular: "prioritylevelconfiguration", Scope: resource.Cluster,
		NewList:        func() runtime.Object { return &flowcontrolv1.PriorityLevelConfigurationList{} },
		Default:        defaultPriorityLevel,
		Validate:       validatePriorityLevel,
		ValidateUpdate: func(level, _ *priorityLevel) field.ErrorList { return validatePriorityLevel(level) },
		ValidateStatusUpdate: func(level, _ *priorityLevel) field.ErrorList {
			types := make([]string, 0, len(level.Status.Conditions))
			for _, condition := range level.Status.Conditions {
				types = append(types, string(condition.Type))
			}
			return validateConditions(types)
		},
		Columns: []resource.Column[*priorityLevel]{
			{Name: "Type", Of: func(level *priorityLevel) any { return string(level.Spec.Type) }},
			{Name: "NominalConcurrencyShares", Of: ofLimited(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) any {
				if l.NominalConcurrencyShares == nil {
					return nil
				}
				return int64(*l.NominalConcurrencyShares)
			})},
			{Name: "Queues", Of: ofQueuing(func(q *flowcontrolv1.QueuingConfiguration) any { return int64(q.Queues) })},
			{Name: "HandSize", Of: ofQueuing(func(q *flowcontrolv1.QueuingConfiguration) any { return int64(q.HandSize) })},
			{Name: "QueueLengthLimit", Of: ofQueuing(func(q *flowcontrolv1.QueuingConfiguration) any { return int64(q.QueueLengthLimit) })},
		},
		QualifiedFinalizers: true,
		UnconditionalUpdate: true,
	}
}

func ofLimited(of func(*flowcontrolv1.LimitedPriorityLevelConfiguration) any) func(*priorityLevel) any {
	return func(level *priorityLevel) any {
		if level.Spec.Limited == nil {
			return "<none>"
		}
		return of(level.Spec.Limited)
	}
}

func ofQueuing(of func(*flowcontrolv1.QueuingConfiguration) any) func(*priorityLevel) any {
	return ofLimited(func(limited *flowcontrolv1.LimitedPriorityLevelConfiguration) any {
		if limited.LimitResponse.Queuing == nil {
			return "<none>"
		}
		return of(limited.LimitResponse.Queuing)
	})
}

func defaultPriorityLevel(level *priorityLevel) {
	if exempt := level.Spec.Exempt; exempt != nil {
		defaultPointer(&exempt.NominalConcurrencyShares, 0)
		defaultPointer(&exempt.LendablePercent, 0)
	}
	limited := level.Spec.Limited
	if limited == nil {
		return
	}
	defaultPointer(&limited.NominalConcurrencyShares, 30)
	defaultPointer(&limited.LendablePercent, 0)
	if queuing := limited.LimitResponse.Queuing; queuing != nil {
		defaultTo(&queuing.HandSize, 8)
		defaultTo(&queuing.Queues, 64)
		defaultTo(&queuing.QueueLengthLimit, 50)
	}
}

func validatePriorityLevel(level *priorityLevel) field.ErrorList {
	path, spec := field.NewPath("spec"), level.Spec
	errs := validateMandatory(level, path)
	if _, given := level.Annotations[flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey]; given {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations"),
			"the annotation "+flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey+" is for versions that are not served"))
	}
	exempt := spec.Type == flowcontrolv1.PriorityLevelEnablementExempt
	if (level.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) != exempt {
		errs = append(errs, field.Invalid(path.Child("type"), spec.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	errs = append(errs, validateType(path.Child("type"), spec.Type, flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited)...)
	switch {
	case exempt && spec.Exempt != nil:
		errs = append(errs, validateShares(path.Child("exempt"), spec.Exempt.NominalConcurrencyShares, spec.Exempt.LendablePercent)...)
	case spec.Exempt != nil:
		errs = append(errs, field.Forbidden(path.Child("exempt"), "must be unset where the type is not Exempt"))
	}
	limited := spec.Type == flowcontrolv1.PriorityLevelEnablementLimited
	switch {
	case limited && spec.Limited != nil:
		errs = append(errs, validateLimited(path.Child("limited"), spec.Limited)...)
	case limited:
		errs = append(errs, field.Required(path.Child("limited"), "must be set where the type is Limited"))
	case spec.Limited != nil:
		errs = append(errs, field.Forbidden(path.Child("limited"), "must be unset where the type is not Limited"))
	}
	return errs
}

// validateMandatory keeps the levels that every server has as they are, apart from how much others may borrow of the exempt one:
// that is an administrator's choice.
func validateMandatory(level *priorityLevel, path *field.Path) field.ErrorList {
	for _, mandatory := range bootstrap.MandatoryPriorityLevelConfigurations {
		want := *mandatory.Spec.DeepCopy()
		if level.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			want.Exempt = level.Spec.Exempt
		}
		if mandatory.Name == level.Name && !equality.Semantic.DeepEqual(want, level.Spec) {
			return field.ErrorList{field.Invalid(path, level.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", level.Name))}
		}
	}
	return nil
}

func validateType[T ~string](path *field.Path, got T, known ...T) field.ErrorList {
	switch {
	case got == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(known, got):
		return field.ErrorList{field.NotSupported(path, got, known)}
	}
	return nil
}

func validateShares(path *field.Path, shares, lendable *int32) field.ErrorList {
	var errs field.ErrorList
	if shares != nil && *shares < 0 {
		errs = append(errs, field.Invalid(path.Child("nominalConcurrencyShares"), *shares, "must be a non-negative integer"))
	}
	if lendable != nil && (*lendable < 0 || *lendable > 100) {
		errs = append(errs, field.Invalid(path.Child("lendablePercent"), *lendable, "must be between 0 and 100, inclusive"))
	}
	return errs
}

func validateLimited(path *field.Path, limited *flowcontrolv1.LimitedPriorityLevelConfiguration) field.ErrorList {
	errs := validateShares(path, limited.NominalConcurrencyShares, limited.LendablePercent)
	if borrowing := limited.BorrowingLimitPercent; borrowing != nil && *borrowing < 0 {
		errs = append(errs, field.Invalid(path.Child("borrowingLimitPercent"), *borrowing, "if specified, must be a non-negative integer"))
	}
	response := limited.LimitResponse
	path = path.Child("limitResponse")
	errs = append(errs, validateType(path.Child("type"), response.Type, flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)...)
	queue := response.Type == flowcontrolv1.LimitResponseTypeQueue
	switch {
	case queue && response.Queuing != nil:
		errs = append(errs, validateQueuing(path.Child("queuing"), response.Queuing)...)
	case queue:
		errs = append(errs, field.Required(path.Child("queuing"), "must be set where the type is Queue"))
	case response.Queuing != nil:
		errs = append(errs, field.Forbidden(path.Child("queuing"), "must be unset where the type is not Queue"))
	}
	return errs
}

func validateQueuing(path *field.Path, queuing *flowcontrolv1.QueuingConfiguration) field.ErrorList {
	const maxQueues = 10_000_000
	var errs field.ErrorList
	if queuing.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(path.Child("queueLengthLimit"), queuing.QueueLengthLimit, "must be positive"))
	}
	if queuing.Queues <= 0 || queuing.Queues > maxQueues {
		errs = append(errs, field.Invalid(path.Child("queues"), queuing.Queues, fmt.Sprintf("must be between 1 and %d", maxQueues)))
	}
	hand := path.Child("handSize")
	if queuing.HandSize <= 0 || queuing.HandSize > queuing.Queues {
		errs = append(errs, field.Invalid(hand, queuing.HandSize, "must be positive and not greater than queues"))
	} else if bits := shufflesharding.RequiredEntropyBits(int(queuing.Queues), int(queuing.HandSize)); bits > shufflesharding.MaxHashBits {
		errs = append(errs, field.Invalid(hand, queuing.HandSize, fmt.Sprintf("dealing %d of %d queues takes %d random bits, of which there are %d",
			queuing.HandSize, queuing.Queues, bits, shufflesharding.MaxHashBits)))
	}
	return errs
}
