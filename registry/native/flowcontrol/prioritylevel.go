// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package flowcontrol

import (
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/kube-annex/annex/registry/resource"
)

type priorityLevel = flowcontrolv1.PriorityLevelConfiguration

func priorityLevels() resource.Kind[*priorityLevel] {
	return resource.Kind[*priorityLevel]{
		Plural: "prioritylevelconfigurations", Singular: "prioritylevelconfiguration", Scope: resource.Cluster,
		New:            func() *priorityLevel { return &priorityLevel{} },
		NewList:        func() runtime.Object { return &flowcontrolv1.PriorityLevelConfigurationList{} },
		Default:        defaultPriorityLevel,
		Validate:       validatePriorityLevel,
		ValidateUpdate: func(level, _ *priorityLevel) field.ErrorList { return validatePriorityLevel(level) },
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
	var errs field.ErrorList
	path, spec := field.NewPath("spec"), level.Spec
	exemptName := level.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt
	if exemptName != (spec.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(path.Child("type"), spec.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	for _, mandatory := range bootstrap.MandatoryPriorityLevelConfigurations {
		want := *mandatory.Spec.DeepCopy()
		if exemptName {
			// How much others may borrow is an administrator's choice.
			want.Exempt = spec.Exempt
		}
		if mandatory.Name == level.Name && !equality.Semantic.DeepEqual(want, spec) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("spec of '%s' must equal the fixed value", level.Name)))
		}
	}
	switch spec.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if spec.Limited != nil {
			errs = append(errs, field.Forbidden(path.Child("limited"), "must be nil if the type is not Limited"))
		}
		if spec.Exempt != nil {
			errs = append(errs, validateShares(path.Child("exempt"), spec.Exempt.NominalConcurrencyShares, spec.Exempt.LendablePercent)...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if spec.Exempt != nil {
			errs = append(errs, field.Forbidden(path.Child("exempt"), "must be nil if the type is Limited"))
		}
		if spec.Limited == nil {
			errs = append(errs, field.Required(path.Child("limited"), "must not be empty when type is Limited"))
		} else {
			errs = append(errs, validateLimited(path.Child("limited"), spec.Limited)...)
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("type"), spec.Type, []flowcontrolv1.PriorityLevelEnablement{
			flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited,
		}))
	}
	return errs
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
	response, queuing := path.Child("limitResponse"), limited.LimitResponse.Queuing
	switch limited.LimitResponse.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if queuing != nil {
			errs = append(errs, field.Forbidden(response.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited"))
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if queuing == nil {
			return append(errs, field.Required(response.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited"))
		}
		errs = append(errs, validateQueuing(response.Child("queuing"), queuing)...)
	default:
		errs = append(errs, field.NotSupported(response.Child("type"), limited.LimitResponse.Type, []flowcontrolv1.LimitResponseType{
			flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject,
		}))
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
	if queuing.HandSize <= 0 || queuing.HandSize > queuing.Queues {
		errs = append(errs, field.Invalid(path.Child("handSize"), queuing.HandSize, "must be positive and not greater than queues"))
	} else if !shuffleShardable(queuing.HandSize, queuing.Queues) {
		errs = append(errs, field.Invalid(path.Child("handSize"), queuing.HandSize, "required entropy bits of deckSize and handSize should not be greater than 60"))
	}
	return errs
}

// shuffleShardable tells whether the hands of cards that can be dealt from the queues can be numbered in 60 bits.
func shuffleShardable(handSize, queues int32) bool {
	hands := 1.0
	for i := range handSize {
		hands *= float64(queues - i)
		if hands > 1<<60 {
			return false
		}
	}
	return true
}
