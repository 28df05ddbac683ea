// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/lru"
)

const (
	// maxFeatures is the number of Features in a namespace up to which reports announce unknown ones.
	maxFeatures = 4096
	// featuresPerMinute limits the Features that reports of one user create.
	featuresPerMinute = 512
	// processesPerMinute and processesAtOnce limit the processes that one user reports for the first time. A server that was restarted
	// knows none, and one user may stand for thousands of pods.
	processesPerMinute, processesAtOnce = 1200, 10000
	// trackedUsers and trackedProcesses are kept in memory; the least recently used are forgotten.
	trackedUsers, trackedProcesses = 4096, 65536
	// retryAfterSeconds is sent with a refusal by a limit.
	retryAfterSeconds = 10
)

// userLimit is a token bucket for each user.
type userLimit struct {
	what             string
	perMinute, burst int

	mu      sync.Mutex
	buckets *lru.Cache
}

func newUserLimit(what string, perMinute, burst int) *userLimit {
	return &userLimit{what: what, perMinute: perMinute, burst: burst, buckets: lru.New(trackedUsers)}
}

// take refuses the request if its user has reached the limit.
func (l *userLimit) take(ctx context.Context) error {
	name := userName(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.buckets.Get(name)
	if !ok {
		found = flowcontrol.NewTokenBucketRateLimiter(float32(l.perMinute)/60, l.burst)
		l.buckets.Add(name, found)
	}
	if !found.(flowcontrol.RateLimiter).TryAccept() {
		return apierrors.NewTooManyRequests(fmt.Sprintf("reports of user %q may add %d %s a minute; try again later", name, l.perMinute, l.what), retryAfterSeconds)
	}
	return nil
}

func userName(ctx context.Context) string {
	if user, ok := genericapirequest.UserFrom(ctx); ok {
		return user.GetName()
	}
	return ""
}
