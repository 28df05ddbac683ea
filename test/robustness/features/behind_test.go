// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/test/robustness/faults"
)

// way is the connection of a replica to etcd.
type way struct {
	*faults.Proxy
	// late is how many writes of the gated field were sent while the way was held.
	late atomic.Int64
}

// newWay leads to an etcd at a socket until the test ends.
func newWay(t *testing.T, endpoint string) *way {
	t.Helper()
	w := &way{Proxy: faults.NewProxy(t, "unix", strings.TrimPrefix(endpoint, "unix://"))}
	w.OnHeld = func(content []byte) { w.late.Add(int64(bytes.Count(content, []byte(paint)))) }
	return w
}

// fault is what happens to a replica while a feature is turned off.
type fault struct {
	settings settings
	begin    func(c *child, way *way)
	end      func(c *child, way *way)
	// caught tells how many writes it has caught on their way from the permit to the store.
	caught func(c *child, way *way) int64
}

var (
	// paused is a replica that is halted in the middle of writes.
	paused = fault{
		settings: settings{Linger: 300 * time.Millisecond},
		begin:    func(c *child, _ *way) { c.signal(syscall.SIGSTOP) },
		end:      func(c *child, _ *way) { c.signal(syscall.SIGCONT) },
		caught:   func(c *child, _ *way) int64 { return int64(strings.Count(c.process.Log(), late)) },
	}
	// heldUp is a replica whose transactions arrive when all is over.
	heldUp = fault{
		settings: settings{Linger: 20 * time.Millisecond},
		begin:    func(_ *child, way *way) { way.Hold() },
		end:      func(_ *child, way *way) { way.Release() },
		caught:   func(_ *child, way *way) int64 { return way.late.Load() },
	}
	// cutOff is a replica whose connections break, and which finds no others.
	cutOff = fault{
		settings: settings{Linger: 20 * time.Millisecond},
		begin:    func(_ *child, way *way) { way.Disconnect() },
		end:      func(_ *child, way *way) { way.Reconnect() },
	}
)

// TestNothingIsStoredBehindASweep turns a feature off while something is wrong with one of two replicas, through which clients set the
// gated field all the time. What etcd has committed shows that no write of the field came behind the sweep.
func TestNothingIsStoredBehindASweep(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fault{"paused": paused, "held up": heldUp, "cut off": cutOff} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			h, times := s.turnOffDuring(fault, random(t))
			for _, wrong := range h.wrong {
				t.Error(wrong)
			}
			// The first announcement finds nothing to sweep.
			if want := times; h.sweeps != want || h.kept == 0 || h.bare == 0 {
				t.Errorf("%d sweeps, %d writes with the field and %d without, want %d sweeps and some of both", h.sweeps, h.kept, h.bare, want)
			}
		})
	}
}

// TestWritesBehindASweepAreFound has replicas that do not compare the state of the feature when they write.
func TestWritesBehindASweepAreFound(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fault{"paused": paused, "held up": heldUp} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			fault.settings.Unguarded = true
			if h, _ := s.turnOffDuring(fault, random(t)); len(h.wrong) == 0 {
				t.Errorf("%d writes with the field, and nothing was found", h.kept)
			}
		})
	}
}

// turnOffDuring turns the feature on and off again, with a fault of one replica in between, and returns what has become of it and how
// often that was. A round in which the fault has caught no write on its way shows nothing and is repeated, a few times at most.
func (s *stage) turnOffDuring(fault fault, random *rand.Rand) (h *history, times int) {
	s.t.Helper()
	way := newWay(s.t, s.etcd.Endpoints()[0])
	well := s.start(settings{Instance: "well", Value: disabled, Dynamic: true, Lease: shortLease}, nil)
	with := fault.settings
	with.Instance, with.Value, with.Dynamic, with.Lease = "faulty", disabled, true, shortLease
	for done, misses := 0, 0; done < *rounds && misses < 5; times++ {
		round := times
		faulty := s.start(with, way)
		well.waitForState(v1alpha1.StateOff)
		well.desire(enabled)
		well.waitForState(v1alpha1.StateOn)

		through := map[*child]*writers{well: write(s.t, well, 2, round), faulty: write(s.t, faulty, 8, round)}
		s.waitUntil("the field is written through the replica that is to fail", &through[faulty].kept, 50)
		<-time.After(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
		fault.begin(faulty, way)
		well.desire(disabled)
		s.waitForSilence(well)
		well.expire("faulty")
		well.waitForState(v1alpha1.StateOff)
		// The replica that is well has all it needs for writes meanwhile.
		s.waitUntil("writes go on", &through[well].dropped, 10)
		fault.end(faulty, way)
		s.waitUntil("the field is dropped by the replica that had failed", &through[faulty].dropped, 50)
		for c, w := range through {
			w.end()
			s.t.Logf("writes through %s: %s", c.instance, w)
		}
		done++
		if fault.caught != nil && fault.caught(faulty, way) == 0 {
			done--
			if misses++; misses == 5 {
				s.t.Error("no write was caught on its way, five times")
			}
		}
		faulty.stop()
	}
	h = read(s.t, s.etcd, s.prefix)
	s.t.Logf("%d writes with the field, %d without; the Feature was %s", h.kept, h.bare, strings.Join(h.states, ", "))
	return h, times
}

// waitForSilence waits until the Feature names the reporter that does not answer, and sees that nothing is swept as long as its Lease
// has not expired.
func (s *stage) waitForSilence(well *child) {
	s.t.Helper()
	waits := func(f *v1alpha1.Feature) bool {
		tasks := f.Status.Tasks
		return f.Status.State == v1alpha1.StateTurningOff && len(tasks) > 0 && tasks[0].Name == lifecycle.WaitForUses
	}
	well.waitFor("waiting for the silent reporter", func(f *v1alpha1.Feature) bool {
		return waits(f) && strings.Contains(f.Status.Tasks[0].Message, "waits for 1 live reporters to answer, or their Leases to expire: "+component+"/faulty")
	})
	s.holds(500*time.Millisecond, func() string {
		f, err := well.get()
		if err != nil || !waits(f) {
			return fmt.Sprintf("the Feature did not wait for the silent reporter: %v, %v", f, err)
		}
		return ""
	})
}
