// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework/poll"
)

// Eventually is poll.Eventually for checks whose errors name what is waited for.
func Eventually(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	if err := poll.Until(t.Context(), limit, func(context.Context) error { return check() }); err != nil {
		t.Fatal(err)
	}
}
