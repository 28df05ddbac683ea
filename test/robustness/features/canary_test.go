// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/test/framework/poll"
)

// canarySize is how many processes there are.
const canarySize = 48

// chosen are the instances that a canary of so many percent has: those whose hash says so, in all versions of the library.
func chosen(percent uint64) sets.Set[string] {
	out := sets.New[string]()
	for i := range canarySize {
		instance := fmt.Sprint("pod-", i)
		sum := sha256.Sum256([]byte(instance))
		if binary.BigEndian.Uint64(sum[:])%100 < percent {
			out.Insert(instance)
		}
	}
	return out
}

func pods() map[string]clock.Clock {
	out := map[string]clock.Clock{}
	for i := range canarySize {
		out[fmt.Sprint("pod-", i)] = nil
	}
	return out
}

// TestCanary shows a feature to more and more of the processes that follow it, and then to all of them or to none.
func TestCanary(t *testing.T) {
	t.Parallel()
	p := startPrograms(t, 0)
	p.waitForStand("Off")
	p.run(pods())
	var took []time.Duration
	// become waits until those who see the feature are as wanted, and fails if their number goes the other way.
	become := func(what string, want sets.Set[string], rising bool) {
		t.Helper()
		began, last := time.Now(), -1
		poll.Eventually(p.t, patience, what, func(context.Context) error {
			now := p.enabled()
			if last >= 0 && now.Len() != last && now.Len() > last != rising {
				t.Errorf("%s: %d see the feature after %d did", what, now.Len(), last)
			}
			if last = now.Len(); !now.Equal(want) {
				return fmt.Errorf("%d see the feature, want %d: %v too many, %v too few", last, want.Len(), sets.List(now.Difference(want)), sets.List(want.Difference(now)))
			}
			return nil
		})
		took = append(took, time.Since(began))
	}
	for end, patch := range map[string]string{
		"promoted by percent":           `{"spec":{"canary":{"percent":100}}}`,
		"promoted by taking it away":    `{"spec":{"canary":null}}`,
		"rolled back by spec.desired":   `{"spec":{"desired":"Disabled"}}`,
		"rolled back by no wish at all": `{"spec":{"desired":null}}`,
	} {
		p.patch(`{"spec":{"desired":"Enabled","canary":{"percent":0}}}`)
		p.waitForStand("TurningOn/Canary")
		for _, percent := range []uint64{10, 30, 60} {
			p.patch(fmt.Sprintf(`{"spec":{"canary":{"percent":%d}}}`, percent))
			become(fmt.Sprintf("%d percent see it", percent), chosen(percent), true)
		}
		if end == "promoted by percent" {
			p.stop()
			p.run(pods())
			poll.Eventually(p.t, patience, "the same see it after a restart", func(context.Context) error {
				if now := p.enabled(); !now.Equal(chosen(60)) {
					return fmt.Errorf("%v", sets.List(now))
				}
				return nil
			})
		}
		p.waitForStand("TurningOn/Canary")
		p.patch(patch)
		if strings.HasPrefix(end, "promoted") {
			become(end, chosen(100), true)
			p.waitForStand("On")
			p.patch(`{"spec":{"desired":"Disabled"}}`)
		}
		become(end+", and nobody sees it in the end", sets.New[string](), false)
		p.waitForStand("Off")
	}
	slices.Sort(took)
	t.Logf("%d changes were followed by all %d within %v", len(took), canarySize, took)
}
