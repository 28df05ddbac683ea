// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"k8s.io/klog/v2"
)

const (
	alarmInterval = time.Second
	// firstReport and lastReport bound how often a store that stays full is reported.
	firstReport = 5 * time.Second
	lastReport  = 5 * time.Minute
	// restFactor is how many times longer than an attempt the pause after it is.
	restFactor = 20
	// freeEnough is the part of the quota below which the alarm is lifted.
	freeEnough = 0.9
)

// spaceKeeper recovers the embedded etcd from the NOSPACE alarm. Compaction and deletes are allowed under the alarm; what
// they free becomes usable by defragmentation. An external etcd has no keeper (nil): it is kept by those who run it.
type spaceKeeper struct {
	server *etcdserver.EtcdServer
	client *clientv3.Client
	quota  int64
	// full says what is wrong while the alarm cannot be lifted.
	full  atomic.Pointer[string]
	woken chan struct{}
}

func newSpaceKeeper(server *etcdserver.EtcdServer, client *clientv3.Client, quota int64) *spaceKeeper {
	return &spaceKeeper{server: server, client: client, quota: quota, woken: make(chan struct{}, 1)}
}

// wake has the alarm looked at now. It is called when a write met the alarm.
func (k *spaceKeeper) wake() {
	if k == nil {
		return
	}
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

// reason says why writes are refused, or nothing.
func (k *spaceKeeper) reason() string {
	if k == nil {
		return ""
	}
	if reason := k.full.Load(); reason != nil {
		return *reason
	}
	return ""
}

// start watches for the alarm until the returned function is called, which waits for the end of the work.
func (k *spaceKeeper) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { k.run(ctx) })
	return func() {
		cancel()
		work.Wait()
	}
}

// run lifts the alarm when it can. Where live data fills the store, only deletes change that, so it tries again when something
// was written since, and not so often that defragmentation, for which everything waits, takes more than a small part of the time.
func (k *spaceKeeper) run(ctx context.Context) {
	var tried attempt
	var reported, nextReport time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.woken:
		case <-time.After(alarmInterval):
		}
		if !k.alarmed() {
			k.full.Store(nil)
			tried, nextReport = attempt{}, time.Time{}
			continue
		}
		revision := k.server.KV().Rev()
		if !tried.worthRepeating(revision) {
			continue
		}
		began := time.Now()
		freed, err := k.recover(ctx, revision)
		if ctx.Err() != nil {
			return
		}
		if freed && err == nil {
			k.full.Store(nil)
			klog.FromContext(ctx).Info("etcd had reached its space quota; compacted, defragmented and lifted the alarm", "bytes", k.size(), "quota", k.quota, "took", time.Since(began))
			continue
		}
		tried = attempt{revision: revision, failed: err != nil, ended: time.Now(), took: time.Since(began)}
		reason := fmt.Sprintf("etcd is full: live data takes %d of %d bytes, and only below %d the store takes writes again; delete what is not needed or raise --etcd-quota-bytes",
			k.size(), k.quota, k.enough())
		if err != nil {
			reason = fmt.Sprintf("etcd has reached its space quota and could not be cleared: %v", err)
		}
		k.full.Store(&reason)
		if now := time.Now(); !now.Before(nextReport) {
			pause := firstReport
			if !nextReport.IsZero() {
				pause = min(max(2*nextReport.Sub(reported), firstReport), lastReport)
			}
			reported, nextReport = now, now.Add(pause)
			klog.FromContext(ctx).Error(nil, reason)
		}
	}
}

// attempt is what the last attempt that freed too little found.
type attempt struct {
	revision int64
	failed   bool
	ended    time.Time
	took     time.Duration
}

func (a attempt) worthRepeating(revision int64) bool {
	if a.ended.IsZero() {
		return true
	}
	return (a.failed || revision != a.revision) && time.Since(a.ended) >= max(alarmInterval, restFactor*a.took)
}

// recover compacts up to the revision, defragments, and lifts the alarm if that freed enough. How much compaction freed cannot
// be seen before: etcd counts pages as free two commits later, and under the alarm there are no commits.
func (k *spaceKeeper) recover(ctx context.Context, revision int64) (bool, error) {
	if _, err := k.client.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil && !isCode(err, rpctypes.ErrCompacted) {
		return false, fmt.Errorf("compact: %w", err)
	}
	if k.size() >= k.enough() {
		if err := k.server.Defragment(); err != nil {
			return false, fmt.Errorf("defragment: %w", err)
		}
	}
	if k.size() >= k.enough() {
		return false, nil
	}
	for _, alarm := range k.server.Alarms() {
		if alarm.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		if _, err := k.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: alarm.Alarm}); err != nil {
			return false, fmt.Errorf("lift the alarm: %w", err)
		}
	}
	return true, nil
}

func (k *spaceKeeper) alarmed() bool {
	for _, alarm := range k.server.Alarms() {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			return true
		}
	}
	return false
}

func (k *spaceKeeper) size() int64 { return k.server.Backend().Size() }

func (k *spaceKeeper) enough() int64 { return int64(freeEnough * float64(k.quota)) }
