// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/resource"
)

func configMaps() resource.Kind[*corev1.ConfigMap] {
	return resource.Kind[*corev1.ConfigMap]{
		Plural: "configmaps", Singular: "configmap", ShortNames: []string{"cm"},
		NewList:        func() runtime.Object { return &corev1.ConfigMapList{} },
		Default:        defaultConfigMap,
		Validate:       validateConfigMap,
		ValidateUpdate: validateConfigMapUpdate,
		Columns: []resource.Column[*corev1.ConfigMap]{{
			Name: "Data", Description: corev1.ConfigMap{}.SwaggerDoc()["data"],
			Of: func(cm *corev1.ConfigMap) any { return int64(len(cm.Data) + len(cm.BinaryData)) },
		}},
		QualifiedFinalizers: true,
		UnconditionalUpdate: true,
	}
}

// defaultConfigMap makes no data and empty data the same, which is not so with binary data. It matters where they are immutable.
func defaultConfigMap(cm *corev1.ConfigMap) {
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
}

func validateConfigMap(cm *corev1.ConfigMap) field.ErrorList {
	errs := validateKeys(field.NewPath("data"), cm.Data)
	errs = append(errs, validateKeys(field.NewPath("binaryData"), cm.BinaryData)...)
	for key := range cm.Data {
		if _, both := cm.BinaryData[key]; both {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
	}
	if sizeOf(cm.Data)+sizeOf(cm.BinaryData) > maxDataSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", maxDataSize))
	}
	return errs
}

func validateConfigMapUpdate(cm, old *corev1.ConfigMap) field.ErrorList {
	errs := validateConfigMap(cm)
	if old.Immutable != nil && *old.Immutable {
		errs = append(errs, validateFrozen(cm.Immutable, frozen{"data", cm.Data, old.Data}, frozen{"binaryData", cm.BinaryData, old.BinaryData})...)
	}
	return errs
}
