// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	// leastKills are those of a round, besides the last one.
	leastKills = 2
	// frequentKills are those of a round after which controllers have at least restTime between kills. Rounds have 10 to 30 kills. More of them in
	// close succession show nothing new, and work that takes longer than the time between them would never end.
	frequentKills = 30
	restTime      = 20 * time.Second
	// handOver is how long it takes at most until a killed leader is replaced.
	handOver = 10 * time.Second
	// shown is how many findings are printed.
	shown = 12
)

// proof is a world, and what is known about it.
type proof struct {
	*world
	seed    uint64
	decoder *decoder
	ledger  *ledger
	history *history
	// leftovers are removed by the next round, if there is one.
	leftovers []leftover

	turn             int
	kills, leaders   int
	membersKilled    int
	settled, longest time.Duration
	// lastStart is how long replicas last took to become ready.
	lastStart      time.Duration
	rounds, stored int
}

// newProof follows etcd from now on, until the test ends.
func newProof(t testing.TB, w *world, seed uint64) *proof {
	t.Helper()
	d, err := newDecoder()
	if err != nil {
		t.Fatal(err)
	}
	now, err := w.etcd.Get(t.Context(), objectKeys)
	if err != nil {
		t.Fatal(err)
	}
	p := &proof{world: w, seed: seed, decoder: d, ledger: newLedger(w.authorities, len(w.replicas)), history: newHistory(d, now.Header.Revision)}
	w.urge = make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() { followed <- p.history.Follow(ctx, w.etcd, p.history.step) }()
	t.Cleanup(func() {
		stop()
		if err := <-followed; err != nil {
			t.Errorf("following etcd: %v", err)
		}
	})
	return p
}

// prepare makes what all stories share, and has everything stay that there is then.
func (p *proof) prepare(ctx context.Context) error {
	own := newRequests(p.world, p.seed)
	if _, _, err := own.create(ctx, definitions, definitionOf(widgets.Resource, "Widget")); err != nil {
		return err
	}
	if err := own.served(ctx, widgets); err != nil {
		return err
	}
	// What a control plane makes for itself is there once its leader has been at work, which it has been when it has seen to a namespace.
	begun, _, err := own.create(ctx, namespaces, described(namespaces, "Namespace", "", prefix+"begin", nil))
	if err != nil {
		return err
	}
	p.ledger.keepIf(namespaces, begun, nil)
	err = poll.Until(ctx, patience, func(ctx context.Context) error {
		now, err := p.look(ctx, p.decoder)
		if err != nil {
			return err
		}
		if found := p.ledger.judge(now); len(found) > 0 {
			return errors.New(strings.Join(found, "\n"))
		}
		p.ledger.begin(now)
		return nil
	})
	if err != nil {
		return fmt.Errorf("before the first round: %w", err)
	}
	return nil
}

// round has stories told while replicas are killed, and returns when everything has come to rest.
func (p *proof) round(ctx context.Context, round int) error {
	random := rand.New(rand.NewPCG(p.seed, uint64(round)+1))
	stories, done := p.tell(ctx, round, random)
	for killed := 0; ; killed++ {
		if killed >= frequentKills {
			select {
			case <-done:
			case <-time.After(restTime):
			}
		}
		select {
		case <-done:
			if killed >= leastKills {
				return p.end(ctx, stories, random)
			}
		default:
		}
		if err := p.kill(ctx, random); err != nil {
			return err
		}
	}
}

// telling is a story and how it went.
type telling struct {
	*story
	err error
}

// tell starts all stories of a round. The channel is closed when they have come to their end.
func (p *proof) tell(ctx context.Context, round int, random *rand.Rand) ([]*telling, <-chan struct{}) {
	var all []*telling
	var running sync.WaitGroup
	leftovers := p.leftovers
	p.leftovers = nil
	type tale struct {
		name string
		tell func(*story, context.Context) error
	}
	tales := []tale{
		{"family-a", (*story).family}, {"family-b", (*story).family}, {"family-c", (*story).family},
		{"emptying", (*story).emptying}, {"serving-a", (*story).serving}, {"serving-b", (*story).serving}, {"ending", (*story).ending}, {"switching", (*story).switching}, {"unserved", (*story).unserved},
		{"crowd", (*story).crowd}, {"converting", (*story).converting}, {"tokens", (*story).tokens}, {"certificates", (*story).certificates},
		{"aggregation", (*story).aggregation}, {"checking", (*story).checking}, {"migration", (*story).migration}, {"identity", (*story).identity},
		{"cleaning", func(s *story, ctx context.Context) error { return s.clean(ctx, leftovers) }},
	}
	if p.extension != nil {
		tales = append(tales, tale{"aggregated", (*story).aggregated})
	}
	for _, s := range tales {
		own := newRequests(p.world, random.Uint64())
		t := &telling{story: &story{requests: own, ledger: p.ledger, name: fmt.Sprintf("%d-%s", round, s.name)}}
		all = append(all, t)
		running.Go(func() { t.err = s.tell(t.story, ctx) })
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	return all, done
}

// kill ends one replica at some point or, now and then, all, and starts them again.
func (p *proof) kill(ctx context.Context, random *rand.Rand) error {
	if random.IntN(100) < 80 {
		// Controllers that are never at work cannot be interrupted.
		p.waitLeader(ctx, handOver)
	}
	victims := []*replica{p.replicas[p.turn%len(p.replicas)]}
	switch roll := random.IntN(100); {
	case roll < 10:
		victims = p.replicas
	case roll < 60:
		if leader := p.leader(ctx); leader != nil {
			victims = []*replica{leader}
			p.leaders++
		}
	default:
		p.turn++
	}
	p.await(ctx, time.Duration(random.Int64N(int64(p.respite()))), time.Duration(random.Int64N(int64(20*time.Millisecond))))
	p.calm.Lock()
	defer p.calm.Unlock()
	if p.members != nil && random.IntN(100) < 50 {
		if err := p.killMember(ctx, random.IntN(members)); err != nil {
			return err
		}
	}
	for _, victim := range victims {
		p.note("%s is killed", victim.name)
		victim.kill()
		p.kills++
	}
	poll.Pause(ctx, time.Duration(random.Int64N(int64(500*time.Millisecond))))
	if random.IntN(100) < 20 {
		// It has hardly begun.
		if err := victims[0].launch(); err != nil {
			return err
		}
		poll.Pause(ctx, time.Duration(random.Int64N(int64(time.Second))))
		victims[0].kill()
		p.kills++
	}
	return p.restart(ctx, victims)
}

// killMember ends a member of etcd, and starts it again.
func (p *proof) killMember(ctx context.Context, i int) error {
	p.note("member %d of etcd is killed", i)
	p.membersKilled++
	if err := p.members.Restart(ctx, i); err != nil {
		return fmt.Errorf("restart a member of etcd: %w", err)
	}
	return nil
}

// await returns after some time or, before that, a moment after something was deleted, in the middle of what that brings about.
func (p *proof) await(ctx context.Context, limit, moment time.Duration) {
	select {
	case <-p.urge: // that was long ago
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.urge:
		poll.Pause(ctx, moment)
	case <-timer.C:
	case <-ctx.Done():
	}
}

// respite is the longest time between kills. A single replica leads at once, and no other replica answers requests. On a busy machine the time
// grows with that of starts: controllers that are killed whenever they have just begun finish nothing.
func (p *proof) respite() time.Duration {
	least := 1200 * time.Millisecond
	if len(p.replicas) == 1 {
		least = 3 * time.Second
	}
	return max(least, 2*p.lastStart)
}

func (p *proof) restart(ctx context.Context, victims []*replica) error {
	launched := time.Now()
	defer func() { p.lastStart = time.Since(launched) }()
	for _, victim := range victims {
		if err := victim.launch(); err != nil {
			return err
		}
	}
	for _, victim := range victims {
		if err := victim.waitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// end kills the leader once more, now that nobody will ask for anything again, and waits until everything is as it should be.
func (p *proof) end(ctx context.Context, stories []*telling, random *rand.Rand) error {
	var errs []error
	for _, s := range stories {
		if s.err != nil {
			errs = append(errs, fmt.Errorf("the story %s: %w", s.name, s.err))
		}
		p.leftovers = append(p.leftovers, s.leftovers...)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	victim := p.leader(ctx)
	if victim == nil {
		victim = p.replicas[random.IntN(len(p.replicas))]
	}
	victim.kill()
	p.kills++
	killed := time.Now()
	if err := p.restart(ctx, []*replica{victim}); err != nil {
		return err
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
	took := time.Since(killed)
	p.rounds++
	p.settled += took
	p.longest = max(p.longest, took)
	return nil
}

// settle waits until everything is as it should be, and then looks at what has been on the way there.
func (p *proof) settle(ctx context.Context) error {
	err := poll.Until(ctx, patience, func(ctx context.Context) error {
		now, err := p.look(ctx, p.decoder)
		if err != nil {
			return err
		}
		p.stored = len(now.objects)
		found := p.ledger.judge(now)
		if len(found) == 0 {
			return nil
		}
		number := len(found)
		found = found[:min(number, shown)]
		for i := range found {
			found[i] = p.history.lifeOf(found[i])
		}
		return fmt.Errorf("%d things are not as they should be:\n%s", number, strings.Join(found, "\n"))
	})
	if err != nil {
		return err
	}
	last, err := p.etcd.Get(ctx, objectKeys)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.history.WaitFor(limited, last.Header.Revision); err != nil {
		return err
	}
	if found := p.history.Violations(); len(found) > 0 {
		return fmt.Errorf("%d moments were not as they should be:\n%s", len(found), strings.Join(found[:min(len(found), shown)], "\n"))
	}
	for _, r := range p.replicas {
		if found := r.deaths(); len(found) > 0 {
			return errors.New(strings.Join(found, "\n"))
		}
	}
	return nil
}

// String says what was done.
func (p *proof) String() string {
	return fmt.Sprintf("%d rounds, %d kills (%d because it was the leader) and %d of members of etcd, %d objects made that stay for a round, %d stored in the end; as it should be %s after the last kill on average, %s at most; %s",
		p.rounds, p.kills, p.leaders, p.membersKilled, p.ledger.made, p.stored, (p.settled / time.Duration(max(p.rounds, 1))).Round(time.Millisecond), p.longest.Round(time.Millisecond), p.history)
}
