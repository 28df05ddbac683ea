// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package singlewriter

import (
	"context"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"
)

// Fault is something that happens to one worker, or to what all of them share.
type Fault struct {
	Name   string
	weight int
	// pauses marks faults that keep a process from noticing that its time is over.
	pauses bool
	// alone marks faults during which nothing else may happen where only intervals are checked.
	alone bool
	do    func(ctx context.Context, l *lane) error
}

// AllFaults is every kind, with how often it occurs.
var AllFaults = []Fault{
	{Name: "pause", weight: 12, pauses: true, do: pauseProcess},
	{Name: "kill", weight: 12, do: killProcess},
	{Name: "interrupt", weight: 8, do: interruptProcess},
	{Name: "delay", weight: 10, do: trouble(delayed)},
	{Name: "cut", weight: 7, do: trouble(cut)},
	{Name: "blackhole", weight: 10, do: trouble(swallowed)},
	{Name: "refuse", weight: 10, do: trouble(refused)},
	{Name: "lose", weight: 8, do: trouble(lost)},
	{Name: "hand-over", weight: 12, do: handOver},
	{Name: "fail", weight: 1, do: failRunner("fail")},
	{Name: "panic", weight: 1, do: failRunner("panic")},
	{Name: "stick", weight: 2, do: stickRunner},
	{Name: "edit", weight: 6, alone: true, do: editLease},
	{Name: "server", weight: 1, do: killServer},
}

// Unpaused are the faults that a process can notice in time.
func Unpaused() []Fault { return which(func(f Fault) bool { return !f.pauses }) }

// Named are the faults with these names.
func Named(names ...string) []Fault {
	return which(func(f Fault) bool {
		for _, name := range names {
			if f.Name == name {
				return true
			}
		}
		return false
	})
}

func which(holds func(Fault) bool) []Fault {
	var out []Fault
	for _, f := range AllFaults {
		if holds(f) {
			out = append(out, f)
		}
	}
	return out
}

// lane is what happens to one worker, one fault after the other.
type lane struct {
	*Proof
	worker *Worker
	proxy  *Proxy
	random *rand.Rand
}

// run makes so many faults happen.
func (l *lane) run(ctx context.Context, n int) error {
	weights := 0
	for _, f := range l.options.Faults {
		weights += f.weight
	}
	for range n {
		pick := l.random.IntN(weights)
		for _, f := range l.options.Faults {
			if pick -= f.weight; pick < 0 {
				if err := l.one(ctx, f); err != nil {
					return err
				}
				break
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

func (l *lane) one(ctx context.Context, f Fault) error {
	if l.options.Plain {
		if f.alone {
			l.calm.Lock()
			defer l.calm.Unlock()
			defer wait(ctx, l.options.Timings.LeaseDuration*3/2)
			wait(ctx, l.options.Timings.LeaseDuration/2)
		} else {
			l.calm.RLock()
			defer l.calm.RUnlock()
		}
	}
	if ended, err := l.worker.Ended(); err != nil {
		return err
	} else if ended {
		if err := l.start(ctx); err != nil {
			return err
		}
	}
	l.count(f.Name)
	if err := f.do(ctx, l); err != nil {
		return err
	}
	wait(ctx, l.between(50*time.Millisecond, 400*time.Millisecond))
	return nil
}

// start starts the next process. Where only intervals are checked it gets to know the Leases before anything else happens: a
// process that has just started cannot know that a Lease was taken from its holder.
func (l *lane) start(ctx context.Context) error {
	l.proxy.Heal()
	if err := l.worker.Start(); err != nil {
		return err
	}
	if l.options.Plain {
		wait(ctx, l.options.Timings.LeaseDuration/2)
	}
	return nil
}

// between returns a time from the one to the other.
func (l *lane) between(from, to time.Duration) time.Duration {
	return from + time.Duration(l.random.Int64N(int64(to-from)))
}

// leases returns a time between so many tenths of the lease duration.
func (l *lane) leases(from, to int) time.Duration {
	tenth := l.options.Timings.LeaseDuration / 10
	return l.between(time.Duration(from)*tenth, time.Duration(to)*tenth)
}

// led returns a group that the worker leads, or else any group.
func (l *lane) led() string {
	groups := l.history.LedBy(l.worker.Name + "_")
	if len(groups) == 0 {
		groups = l.groups
	}
	return groups[l.random.IntN(len(groups))]
}

func pauseProcess(ctx context.Context, l *lane) error {
	l.worker.Signal(syscall.SIGSTOP)
	wait(ctx, l.leases(10, 18))
	l.worker.Signal(syscall.SIGCONT)
	return nil
}

func killProcess(ctx context.Context, l *lane) error {
	l.worker.Kill()
	wait(ctx, l.leases(0, 13))
	return l.start(ctx)
}

func interruptProcess(ctx context.Context, l *lane) error {
	if err := l.worker.Stop(l.options.Timings.LeaseDuration * 5); err != nil {
		return err
	}
	wait(ctx, l.leases(0, 5))
	return l.start(ctx)
}

// trouble lets requests of the worker go wrong: all or a part of them, those for Leases or others.
func trouble(kind string) func(context.Context, *lane) error {
	return func(ctx context.Context, l *lane) error {
		l.proxy.Make(Trouble{
			Kind: kind, Share: []float64{1, 1, 0.5}[l.random.IntN(3)],
			Path:  []string{"", "", "/leases", "/configmaps"}[l.random.IntN(4)],
			Delay: l.leases(5, 18),
			Code:  []int{http.StatusForbidden, http.StatusConflict, http.StatusInternalServerError, http.StatusTooManyRequests}[l.random.IntN(4)],
		})
		wait(ctx, l.leases(2, 16))
		l.proxy.Heal()
		return nil
	}
}

func handOver(ctx context.Context, l *lane) error {
	group, rest := l.led(), l.leases(0, 3)
	l.worker.Tell("off " + group)
	wait(ctx, rest)
	l.worker.Tell("on " + group)
	return nil
}

func failRunner(how string) func(context.Context, *lane) error {
	return func(_ context.Context, l *lane) error {
		l.worker.Tell(how + " " + l.led())
		return nil
	}
}

// stickRunner has a runner not return, which ends the process if it led the group.
func stickRunner(ctx context.Context, l *lane) error {
	group := l.led()
	l.worker.Tell("stick " + group)
	l.worker.Tell("off " + group)
	select {
	case <-l.worker.life().done:
	case <-time.After(l.options.Timings.LeaseDuration * 2):
	case <-ctx.Done():
	}
	l.worker.Tell("unstick " + group)
	l.worker.Tell("on " + group)
	return nil
}

// killServer asks for the server to be killed and started again, and waits for that.
func killServer(ctx context.Context, l *lane) error {
	request := restart{away: l.leases(0, 12), done: make(chan struct{})}
	select {
	case l.restarts <- request:
		<-request.done
	case <-ctx.Done():
	}
	return nil
}
