// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package workloop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestPauseEndsWithItsTimeOrItsContext(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		timeout, wait, want time.Duration
		err                 error
	}{
		"time":                            {timeout: time.Hour, wait: time.Minute, want: time.Minute},
		"context":                         {timeout: time.Minute, wait: time.Hour, want: time.Minute, err: context.DeadlineExceeded},
		"no time, context that has ended": {err: context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tc.timeout)
			defer cancel()
			began := time.Now()
			if err := Pause(ctx, clock.RealClock{}, tc.wait); !errors.Is(err, tc.err) || time.Since(began) != tc.want {
				t.Errorf("%s: returned %v after %s, want %v after %s", name, err, time.Since(began), tc.err, tc.want)
			}
		})
	}
}
