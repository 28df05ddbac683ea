// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kube-annex/annex/test/performance/measure"
)

// What peers can do.
const (
	opPreload      = "preload"
	opCreate       = "create"
	opUpdate       = "update"
	opMergePatch   = "merge patch"
	opApply        = "apply"
	opDelete       = "delete"
	opGetCached    = "get from cache"
	opGetQuorum    = "quorum get"
	opList         = "list, JSON"
	opListProtobuf = "list, protobuf"
	opPages        = "list, pages of 500"
)

// The rows of the tables.
const (
	workCreate       = "create"
	workCreateAlone  = "create, 1 client"
	workUpdate       = "update"
	workMergePatch   = "merge patch"
	workApply        = "server-side apply"
	workGetCached    = "get from cache"
	workGetQuorum    = "quorum get"
	workGetAlone     = "get from cache, 1 client"
	workDelete       = "delete"
	workList         = "list, JSON"
	workListProtobuf = "list, protobuf"
	workPages        = "list, pages of 500, JSON"
	workWatch        = "watch"
	workWatchBeside  = "watch beside one who never reads"
	workHeap         = "heap of stored objects"
	workHop          = "aggregator hop"
)

// work is one row that is a load of one operation.
type work struct {
	name, operation string
	// alone is for one client instead of many.
	alone bool
	// least is how many operations there are in any case.
	least int
}

var works = []work{
	{name: workCreate, operation: opCreate},
	{name: workCreateAlone, operation: opCreate, alone: true},
	{name: workUpdate, operation: opUpdate},
	{name: workMergePatch, operation: opMergePatch},
	{name: workApply, operation: opApply},
	{name: workGetCached, operation: opGetCached},
	{name: workGetQuorum, operation: opGetQuorum},
	{name: workGetAlone, operation: opGetCached, alone: true},
	{name: workDelete, operation: opDelete},
	{name: workList, operation: opList, alone: true, least: 3},
	{name: workListProtobuf, operation: opListProtobuf, alone: true, least: 3},
	{name: workPages, operation: opPages, alone: true, least: 3},
}

// mostCreated bounds what a work may create.
const mostCreated = 100_000

// run does a work on a peer for so long, and tells what it has cost.
func (w work) run(ctx context.Context, p *peer, s settings, lasting time.Duration) (sample, error) {
	load := measure.Load{Clients: s.clients, For: lasting, Least: w.least}
	if w.alone {
		load.Clients = 1
	}
	switch w.operation {
	case opCreate:
		load.Most, p.made = mostCreated, make([]object, mostCreated)
	case opUpdate, opMergePatch, opApply:
		if err := p.ensureOwn(ctx, s); err != nil {
			return sample{}, err
		}
	case opDelete:
		if err := p.ensureOwn(ctx, s); err != nil {
			return sample{}, err
		}
		load.Least, load.Most = len(p.own), len(p.own)
	}
	out, err := measureCost(p, func() (measure.Done, error) { return load.Run(ctx, p.operations[w.operation]) })
	p.settle()
	return out, err
}

// settle takes stock of what was created and deleted.
func (p *peer) settle() {
	all := append(p.own, p.made...)
	p.own, p.made = nil, nil
	for _, object := range all {
		if object.revision != "" {
			p.own = append(p.own, object)
		}
	}
}

// ensureOwn creates what later works change, where no work has created it.
func (p *peer) ensureOwn(ctx context.Context, s settings) error {
	if len(p.own) > 0 {
		return nil
	}
	p.made = make([]object, s.own)
	_, err := measure.Load{Clients: s.clients, Least: s.own, Most: s.own}.Run(ctx, p.operations[opCreate])
	p.settle()
	return err
}

// clear deletes what the works of a round have left.
func (p *peer) clear(ctx context.Context, s settings) error {
	if len(p.own) == 0 {
		return nil
	}
	_, err := measure.Load{Clients: s.clients, Least: len(p.own), Most: len(p.own)}.Run(ctx, p.operations[opDelete])
	p.settle()
	return err
}

// measureCost measures what the peer's processes use meanwhile.
func measureCost(p *peer, do func() (measure.Done, error)) (sample, error) {
	before, err := p.cpu()
	if err != nil {
		return sample{}, err
	}
	done, err := do()
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", p.name, err)
	}
	after, err := p.cpu()
	if err != nil {
		return sample{}, err
	}
	memory, err := p.resident()
	if err != nil {
		return sample{}, err
	}
	out := sample{
		Operations: done.Operations, Seconds: done.Wall.Seconds(), P50: done.Milliseconds(0.5), P99: done.Milliseconds(0.99),
		CPU: usage{}, Resident: memory,
	}
	for role, seconds := range after {
		out.CPU[role] = seconds - before[role]
	}
	return out, nil
}
