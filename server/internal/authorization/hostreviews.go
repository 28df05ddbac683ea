// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authorization

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/kube-annex/annex/server/internal/filters"
)

// reviewTimeout limits how long a request waits for a review of the host, retries included.
const reviewTimeout = 10 * time.Second

// hostReviews limits the time of reviews, and marks requests whose review has failed.
type hostReviews struct{ authorizer.Authorizer }

// WithHostReviews wraps an authorizer that sends reviews to the host. filters.WithAuthorizerUnavailable answers requests whose review has failed.
func WithHostReviews(host authorizer.Authorizer) authorizer.Authorizer { return hostReviews{host} }

// Authorize implements authorizer.Authorizer.
func (r hostReviews) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	limited, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	decision, reason, err := r.Authorizer.Authorize(limited, attributes)
	if err != nil {
		filters.SetAuthorizerUnavailable(ctx)
	}
	return decision, reason, err
}

// ConditionsAwareAuthorize implements authorizer.Authorizer. Reviews have no conditions.
func (r hostReviews) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(r.Authorize(ctx, attributes))
}
