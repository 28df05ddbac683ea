// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/kube-annex/annex/apis/multicluster"
)

// ReservedClaimNamesName is the plugin's name in --enable-admission-plugins.
const ReservedClaimNamesName = "ClusterClaimReservedNames"

// ReservedClaimNames keeps names of the Kubernetes project for holders of the verb reserve on clusterclaims (KEP-2149,
// "Additional Claims"). The two well-known claims are for everyone.
type ReservedClaimNames struct {
	*admission.Handler
	asksAuthorizer
}

// NewReservedClaimNames returns the plugin; it needs an authorizer before it is used.
func NewReservedClaimNames() *ReservedClaimNames {
	return &ReservedClaimNames{Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete)}
}

// Validate implements admission.ValidationInterface.
func (p *ReservedClaimNames) Validate(ctx context.Context, request admission.Attributes, _ admission.ObjectInterfaces) error {
	name := nameIn(request)
	if !concerns(request, multicluster.Resource("clusterclaims")) || !isReservedClaimName(name) {
		return nil
	}
	allowed, err := p.mayReserve(ctx, request, name)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if !allowed {
		return apierrors.NewForbidden(multicluster.Resource("clusterclaims"), name, fmt.Errorf(
			"names ending in .k8s.io or .kubernetes.io are reserved for the Kubernetes project; choose a name under a domain of yours, or ask an administrator for the verb \"reserve\" on clusterclaims.%s", multicluster.GroupName))
	}
	return nil
}

func isReservedClaimName(name string) bool {
	if name == multicluster.ClaimID || name == multicluster.ClaimClusterSet {
		return false
	}
	return strings.HasSuffix(name, ".k8s.io") || strings.HasSuffix(name, ".kubernetes.io") || strings.HasSuffix(name, "sigs.k8s.io")
}
