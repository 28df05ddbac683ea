// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"k8s.io/apiserver/pkg/apis/apiserver"

	"github.com/kube-annex/annex/server/internal/authorization"
)

// HealthOnly returns conditions that allow anonymous requests to the health paths.
func HealthOnly() []apiserver.AnonymousAuthCondition {
	var conditions []apiserver.AnonymousAuthCondition
	for _, path := range authorization.HealthPaths() {
		conditions = append(conditions, apiserver.AnonymousAuthCondition{Path: path})
	}
	return conditions
}
