// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// skewed is a clock that is wrong by a constant.
type skewed struct {
	clock.RealClock
	by time.Duration
}

func (c skewed) Now() time.Time { return time.Now().Add(c.by) }

// TestReportersWithWrongClocksAnswerInTime turns a feature on and off while some of the reporters are an hour ahead of the server, and some
// an hour behind.
func TestReportersWithWrongClocksAnswerInTime(t *testing.T) {
	t.Parallel()
	const window = 3 * time.Second
	p := startPrograms(t, window)
	p.waitForStand("Off")
	p.run(map[string]clock.Clock{"right": nil, "fast": skewed{by: time.Hour}, "slow": skewed{by: -time.Hour}})
	said := p.messages()
	for _, change := range []struct{ desired, state string }{{"Enabled", "On"}, {"Disabled", "Off"}} {
		p.patch(`{"spec":{"desired":"` + change.desired + `"}}`)
		p.waitForStand(change.state)
	}
	if text := said(); !strings.Contains(text, "asked 3 live reporters") || strings.Contains(text, "program/") {
		t.Errorf("some answers did not count:\n%s", text)
	}
}
