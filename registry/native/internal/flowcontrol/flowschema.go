// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package flowcontrol

import (
	"cmp"
	"fmt"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta/table"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/kube-annex/annex/registry/resource"
)

const (
	defaultPrecedence = 1000
	maxPrecedence     = 10000
)

func flowSchemas() resource.Kind[*flowcontrolv1.FlowSchema] {
	return resource.Kind[*flowcontrolv1.FlowSchema]{
		Plural: "flowschemas", Singular: "flowschema", Scope: resource.Cluster,
		NewList:        func() runtime.Object { return &flowcontrolv1.FlowSchemaList{} },
		Default:        defaultFlowSchema,
		Validate:       validateFlowSchema,
		ValidateUpdate: func(schema, _ *flowcontrolv1.FlowSchema) field.ErrorList { return validateFlowSchema(schema) },
		ValidateStatusUpdate: func(schema, _ *flowcontrolv1.FlowSchema) field.ErrorList {
			types := make([]string, 0, len(schema.Status.Conditions))
			for _, condition := range schema.Status.Conditions {
				types = append(types, string(condition.Type))
			}
			return validateConditions(types)
		},
		Columns: []resource.Column[*flowcontrolv1.FlowSchema]{
			{Name: "PriorityLevel", Of: func(s *flowcontrolv1.FlowSchema) any { return s.Spec.PriorityLevelConfiguration.Name }},
			{Name: "MatchingPrecedence", Of: func(s *flowcontrolv1.FlowSchema) any { return int64(s.Spec.MatchingPrecedence) }},
			{Name: "DistinguisherMethod", Of: func(s *flowcontrolv1.FlowSchema) any {
				if s.Spec.DistinguisherMethod == nil {
					return "<none>"
				}
				return string(s.Spec.DistinguisherMethod.Type)
			}},
			{Name: "Age", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], Of: func(s *flowcontrolv1.FlowSchema) any {
				return table.ConvertToHumanReadableDateType(s.CreationTimestamp)
			}},
			{Name: "MissingPL", Description: "references a broken or non-existent PriorityLevelConfiguration", Of: missingPriorityLevel},
		},
		Age: resource.NoAge,
		// Requests are matched in this order.
		Order: func(a, b *flowcontrolv1.FlowSchema) int {
			return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
		},
		QualifiedFinalizers: true,
		UnconditionalUpdate: true,
	}
}

func missingPriorityLevel(schema *flowcontrolv1.FlowSchema) any {
	for _, condition := range schema.Status.Conditions {
		if condition.Type == flowcontrolv1.FlowSchemaConditionDangling {
			return string(condition.Status)
		}
	}
	return "?"
}

func defaultFlowSchema(schema *flowcontrolv1.FlowSchema) {
	defaultTo(&schema.Spec.MatchingPrecedence, defaultPrecedence)
}

func validateFlowSchema(schema *flowcontrolv1.FlowSchema) field.ErrorList {
	var errs field.ErrorList
	path, spec := field.NewPath("spec"), schema.Spec
	for _, mandatory := range bootstrap.MandatoryFlowSchemas {
		if mandatory.Name == schema.Name && !equality.Semantic.DeepEqual(mandatory.Spec, spec) {
			errs = append(errs, field.Invalid(path, spec, fmt.Sprintf("spec of '%s' must equal the fixed value", schema.Name)))
		}
	}
	precedence := path.Child("matchingPrecedence")
	switch {
	case spec.MatchingPrecedence < 1 || spec.MatchingPrecedence > maxPrecedence:
		errs = append(errs, field.Invalid(precedence, spec.MatchingPrecedence, fmt.Sprintf("must be between 1 and %d", maxPrecedence)))
	case spec.MatchingPrecedence == 1 && schema.Name != flowcontrolv1.FlowSchemaNameExempt:
		errs = append(errs, field.Invalid(precedence, spec.MatchingPrecedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	if method := spec.DistinguisherMethod; method != nil {
		known := []flowcontrolv1.FlowDistinguisherMethodType{flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType}
		if !slices.Contains(known, method.Type) {
			errs = append(errs, field.NotSupported(path.Child("distinguisherMethod", "type"), method.Type, known))
		}
	}
	level := path.Child("priorityLevelConfiguration", "name")
	if name := spec.PriorityLevelConfiguration.Name; name == "" {
		errs = append(errs, field.Required(level, "must reference a priority level"))
	} else {
		for _, message := range validation.NameIsDNSSubdomain(name, false) {
			errs = append(errs, field.Invalid(level, name, message))
		}
	}
	for i, rule := range spec.Rules {
		errs = append(errs, validateRule(rule, path.Child("rules").Index(i))...)
	}
	return errs
}
