// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// leasesIn lets the extension apiserver use Leases in the namespaces that --features names. Those of Annex's own features the control
// plane grants by itself.
func leasesIn(namespaces []string) authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if user := a.GetUser(); user != nil && user.GetName() == extensionUser && slices.Contains(namespaces, a.GetNamespace()) &&
			a.IsResourceRequest() && a.GetAPIGroup() == coordinationv1.GroupName && a.GetResource() == "leases" && a.GetSubresource() == "" {
			return authorizer.DecisionAllow, "the extension apiserver's replicas know each other, and who reports features, by Leases", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
}
