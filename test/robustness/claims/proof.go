// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	clients      = 16
	requestsEach = 2
	// requestTimeout is longer than etcd takes to find a new leader.
	requestTimeout = 15 * time.Second
	// shown is how many violations are printed.
	shown = 5
	never = math.MaxInt64
)

// Options say what is proven.
type Options struct {
	Seed              uint64
	Members, Replicas int
	// KillReplicaEvery and KillLeaderEvery are numbers of rounds; 0 is never.
	KillReplicaEvery, KillLeaderEvery int
	// Unguarded replicas check first and write then.
	Unguarded bool
}

// Proof is the servers, and what is known of the rounds so far.
type Proof struct {
	Options
	*world
	history *History
	began   time.Time
	// first is what the claims were when the round began; late are requests of the round before that may still be done.
	first Pair
	late  []porcupine.Operation

	faults, checks sync.WaitGroup
	mu             sync.Mutex
	counts         map[string]int
	impossible     []string
	broken         []string
}

// Start starts all processes; they end with the test.
func Start(t testing.TB, options Options) *Proof {
	t.Helper()
	p := &Proof{
		Options: options, world: startWorld(t, options.Members, options.Replicas, options.Unguarded),
		history: NewHistory(), began: time.Now(), counts: map[string]int{},
	}
	following, stop := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() { followed <- p.history.Follow(following, p.etcd) }()
	t.Cleanup(func() {
		stop()
		if err := <-followed; err != nil {
			t.Errorf("following etcd: %v", err)
		}
	})
	t.Cleanup(p.faults.Wait)
	return p
}

// Run runs so many rounds, and ends early once that is enough.
func (p *Proof) Run(t testing.TB, rounds int, enough func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for round := range rounds {
		if err := p.round(ctx, round); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if enough() {
			t.Logf("ended with round %d", round)
			break
		}
	}
	p.faults.Wait()
	p.checks.Wait()
	if err := p.catchUp(ctx); err != nil {
		t.Fatal(err)
	}
}

// round has all clients do what they do at the same time, and then looks at what they have made of the claims.
func (p *Proof) round(ctx context.Context, round int) error {
	chance := rand.New(rand.NewPCG(p.Seed, uint64(round)<<8|0xff))
	p.fault(ctx, round, chance)
	var racing sync.WaitGroup
	records := make([][]porcupine.Operation, clients)
	for client := range clients {
		random := rand.New(rand.NewPCG(chance.Uint64(), 0))
		racing.Go(func() { records[client] = p.client(ctx, client, script(p.Seed, round, client), random) })
	}
	racing.Wait()
	history := slices.Concat(p.late, slices.Concat(records...))
	p.late = nil
	for _, record := range slices.Concat(records...) {
		// What may have been done by a request that was answered is done by now.
		if record.Return == never && record.Metadata == nil {
			record.Call = 0
			p.late = append(p.late, record)
		}
	}
	if len(p.late) > 0 {
		// What was under way when something was killed is done before all members serve again, or hardly any later.
		if err := p.waitMembers(ctx); err != nil {
			return err
		}
	}
	now, err := p.look(ctx)
	if err != nil {
		return err
	}
	at := p.now()
	history = append(history, porcupine.Operation{ClientId: clients, Input: Request{Verb: list}, Output: Answer{Outcome: OK, Shown: true, Claims: now}, Call: at, Return: at})
	first := p.first
	p.first = now
	p.checks.Go(func() { p.check(round, first, history) })
	return ctx.Err()
}

// client does its requests one after the other, each at some replica.
func (p *Proof) client(ctx context.Context, number int, requests []Request, random *rand.Rand) (records []porcupine.Operation) {
	var read Answer
	for _, request := range requests {
		request.body, request.Version = read.object, read.Claims.of(request.Claim).Version
		if request.Verb != put && request.Verb != removeVersion {
			request.body, request.Version = nil, 0
		} else if read.object == nil {
			continue
		}
		server := p.replica(ctx, random)
		if server == nil {
			return records
		}
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		call := p.now()
		answer := request.send(limited, server.client)
		cancel()
		read = answer
		for i, part := range parts(request, answer) {
			if i == 0 || part.answer.Outcome != Unknown {
				p.count(request, part.answer)
			}
			record := porcupine.Operation{ClientId: number, Input: part.request, Output: part.answer, Call: call, Return: p.now()}
			switch part.answer.Outcome {
			case Unexpected:
				p.add(&p.broken, describe(request, answer))
				continue
			case Unsent:
				continue
			case Unknown:
				if part.request.Verb == get || part.request.Verb == list {
					continue
				}
				record.Return = never
				if answer.Outcome != Unknown {
					record.Metadata = answer
				}
			}
			records = append(records, record)
		}
	}
	return records
}

type part struct {
	request Request
	answer  Answer
}

// parts splits what is not done at one moment. Deleting all claims deletes each; it begins anew when it could not delete the id
// because the set had just changed, so it may delete several sets.
func parts(request Request, answer Answer) []part {
	if request.Verb != removeAll {
		return []part{{request, answer}}
	}
	theID := part{Request{Verb: removeCollection, Claim: id}, answer}
	theSet := part{Request{Verb: removeCollection, Claim: set}, answer}
	maybe := part{theSet.request, Answer{Outcome: Unknown}}
	all := []part{theID}
	if answer.Outcome == OK {
		all = append(all, theSet)
	} else {
		all = append(all, maybe)
	}
	return append(all, maybe, maybe, maybe, maybe)
}

// replica picks one that serves, as far as is known. There is none when the context has ended.
func (p *Proof) replica(ctx context.Context, random *rand.Rand) *replica {
	first := random.IntN(len(p.replicas))
	for ctx.Err() == nil {
		for i := range p.replicas {
			if r := p.replicas[(first+i)%len(p.replicas)]; r.ready.Load() {
				return r
			}
		}
		poll.Pause(ctx, 10*time.Millisecond)
	}
	return nil
}

// fault kills something in some rounds, some time after they begin. There is at most one fault at a time.
func (p *Proof) fault(ctx context.Context, round int, random *rand.Rand) {
	replica := p.replicas[random.IntN(len(p.replicas))]
	after := time.Duration(random.IntN(30)) * time.Millisecond
	due := func(every int) bool { return every > 0 && round%every == every/2 }
	var name string
	var run func() error
	switch {
	case due(p.KillLeaderEvery):
		name, run = "etcd leader", func() error { return p.killLeader(ctx) }
	case due(p.KillReplicaEvery):
		name, run = "replica", func() error {
			replica.current.Kill()
			replica.ready.Store(false)
			return replica.restart(ctx)
		}
	default:
		return
	}
	p.faults.Wait()
	p.faults.Go(func() {
		poll.Pause(ctx, after)
		if err := run(); err != nil {
			p.add(&p.broken, err.Error())
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.counts["killed: "+name]++
	})
}

// look reads both claims at one revision, with quorum.
func (p *Proof) look(ctx context.Context) (pair Pair, err error) {
	var response *clientv3.TxnResponse
	err = poll.Until(ctx, startTimeout, func(ctx context.Context) (err error) {
		response, err = p.etcd.Txn(ctx).Then(clientv3.OpGet(claimKeys+id), clientv3.OpGet(claimKeys+set)).Commit()
		return err
	})
	if err != nil {
		return pair, fmt.Errorf("read both claims: %w", err)
	}
	for _, read := range response.Responses {
		for _, kv := range read.GetResponseRange().GetKvs() {
			stored, err := p.history.decode(kv.Value)
			if err != nil {
				return pair, err
			}
			claim := &v1alpha1.ClusterClaim{ObjectMeta: stored.ObjectMeta, Spec: v1alpha1.ClusterClaimSpec{Value: stored.Spec.Value}}
			claim.ResourceVersion = fmt.Sprint(kv.ModRevision)
			if err := pair.take(claim); err != nil {
				return pair, err
			}
		}
	}
	return pair, nil
}

// catchUp waits until the history is complete.
func (p *Proof) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// The last write is one that is not a claim.
	var response *clientv3.PutResponse
	err := poll.Until(ctx, startTimeout, func(ctx context.Context) (err error) {
		response, err = p.etcd.Put(ctx, "/end", "")
		return err
	})
	if err != nil {
		return err
	}
	return p.history.WaitFor(ctx, response.Header.Revision)
}

func (p *Proof) now() int64 { return int64(time.Since(p.began)) }

func (p *Proof) add(to *[]string, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*to = append(*to, text)
}

func (p *Proof) count(request Request, answer Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts["requests"]++
	p.counts["outcome: "+string(answer.Outcome)]++
	if answer.Outcome == OK {
		p.counts["done: "+string(request.Verb)]++
	}
}

// Moments are those at which stored claims were wrong.
func (p *Proof) Moments() []string { return p.history.Violations() }

// Impossible are the rounds that no order explains.
func (p *Proof) Impossible() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.impossible)
}

// Violated tells whether one of the checkers has found something.
func (p *Proof) Violated() bool { return len(p.Moments())+len(p.Impossible()) > 0 }

// Verdict fails the test with what was violated, and unless there were all the races that there should be.
func (p *Proof) Verdict(t testing.TB) {
	t.Helper()
	if found := append(p.Moments(), p.Impossible()...); len(found) > 0 {
		t.Errorf("%d violations, the first of which:\n%s", len(found), strings.Join(found[:min(shown, len(found))], "\n"))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.broken[:min(shown, len(p.broken))] {
		t.Error(text)
	}
	for _, outcome := range []Outcome{OK, NoID, IDLeaving, ChangeInSet, DeleteInSet, Immutable, Exists, NotFound} {
		if p.counts["outcome: "+string(outcome)] == 0 {
			t.Errorf("no request was answered with %q", outcome)
		}
	}
	for _, choice := range append(slices.Clone(renames), memberships...) {
		if p.counts["done: "+string(choice.verb)] == 0 {
			t.Errorf("%q was never done", choice.verb)
		}
	}
	if unknown, all := p.counts["outcome: "+string(Unknown)], p.counts["requests"]; unknown*20 > all {
		t.Errorf("%d of %d requests were not answered; that proves too little", unknown, all)
	}
	t.Log(p.summary())
}

// Summary says what was seen.
func (p *Proof) Summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.summary()
}

func (p *Proof) summary() string {
	lines := []string{fmt.Sprintf("seed %d, %s: %d requests; %s", p.Seed, time.Since(p.began).Round(time.Second), p.counts["requests"], p.history)}
	for _, kind := range []string{"outcome", "done", "killed"} {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(p.counts)) {
			if short, is := strings.CutPrefix(name, kind+": "); is {
				parts = append(parts, fmt.Sprintf("%d %s", p.counts[name], short))
			}
		}
		lines = append(lines, kind+": "+strings.Join(parts, ", "))
	}
	return strings.Join(lines, "\n")
}
