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
	// firstReport and lastReport are the shortest and longest interval of log messages while the store is full.
	firstReport = 5 * time.Second
	lastReport  = 5 * time.Minute
	// backoffFactor is the ratio of the pause after an attempt to the duration of the attempt.
	backoffFactor = 20
	// disarmThreshold is the part of the quota below which the alarm is disarmed.
	disarmThreshold = 0.9
)

// quotaAlarm recovers the embedded etcd from the NOSPACE alarm. Compaction and deletes are allowed under the alarm; defragmentation makes
// the freed space usable. It is nil for an external etcd, whose operators recover it.
type quotaAlarm struct {
	server *etcdserver.EtcdServer
	client *clientv3.Client
	quota  int64
	// full is the error message while the alarm cannot be disarmed.
	full   atomic.Pointer[string]
	wakeup chan struct{}
}

func newQuotaAlarm(server *etcdserver.EtcdServer, client *clientv3.Client, quota int64) *quotaAlarm {
	return &quotaAlarm{server: server, client: client, quota: quota, wakeup: make(chan struct{}, 1)}
}

// wake checks the alarm immediately. It is called when a write has failed with the alarm.
func (a *quotaAlarm) wake() {
	if a == nil {
		return
	}
	select {
	case a.wakeup <- struct{}{}:
	default:
	}
}

// reason returns why writes are rejected, or an empty string.
func (a *quotaAlarm) reason() string {
	if a == nil {
		return ""
	}
	if reason := a.full.Load(); reason != nil {
		return *reason
	}
	return ""
}

// start checks the alarm periodically until stop is called, which waits for the end of the work.
func (a *quotaAlarm) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { a.run(ctx) })
	return func() {
		cancel()
		work.Wait()
	}
}

// run disarms the alarm if possible. If live data fills the store only deletes help, so run retries after a write, and at most so often that
// defragmentation, which blocks all requests, takes a small part of the time.
func (a *quotaAlarm) run(ctx context.Context) {
	var tried attempt
	var reported, nextReport time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wakeup:
		case <-time.After(alarmInterval):
		}
		if !a.alarmed() {
			a.full.Store(nil)
			tried, nextReport = attempt{}, time.Time{}
			continue
		}
		revision := a.server.KV().Rev()
		if !tried.retryDue(revision) {
			continue
		}
		began := time.Now()
		freed, err := a.recover(ctx, revision)
		if ctx.Err() != nil {
			return
		}
		if freed && err == nil {
			a.full.Store(nil)
			klog.FromContext(ctx).Info("etcd had reached its space quota; compacted, defragmented and lifted the alarm", "bytes", a.size(), "quota", a.quota, "took", time.Since(began))
			continue
		}
		tried = attempt{revision: revision, failed: err != nil, ended: time.Now(), took: time.Since(began)}
		reason := fmt.Sprintf("etcd is full: live data takes %d of %d bytes, and only below %d the store takes writes again; delete what is not needed or raise --etcd-quota-bytes",
			a.size(), a.quota, a.disarmSize())
		if err != nil {
			reason = fmt.Sprintf("etcd has reached its space quota and could not be cleared: %v", err)
		}
		a.full.Store(&reason)
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

// attempt is the last attempt that has freed too little.
type attempt struct {
	revision int64
	failed   bool
	ended    time.Time
	took     time.Duration
}

func (a attempt) retryDue(revision int64) bool {
	if a.ended.IsZero() {
		return true
	}
	return (a.failed || revision != a.revision) && time.Since(a.ended) >= max(alarmInterval, backoffFactor*a.took)
}

// recover compacts up to the revision, defragments, and disarms the alarm if that has freed enough. The space that compaction frees is not
// known before: etcd counts pages as free two commits later, and under the alarm there are no commits.
func (a *quotaAlarm) recover(ctx context.Context, revision int64) (bool, error) {
	if _, err := a.client.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil && !isCode(err, rpctypes.ErrCompacted) {
		return false, fmt.Errorf("compact: %w", err)
	}
	if a.size() >= a.disarmSize() {
		if err := a.server.Defragment(); err != nil {
			return false, fmt.Errorf("defragment: %w", err)
		}
	}
	if a.size() >= a.disarmSize() {
		return false, nil
	}
	for _, alarm := range a.server.Alarms() {
		if alarm.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		if _, err := a.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: alarm.Alarm}); err != nil {
			return false, fmt.Errorf("lift the alarm: %w", err)
		}
	}
	return true, nil
}

func (a *quotaAlarm) alarmed() bool {
	for _, alarm := range a.server.Alarms() {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			return true
		}
	}
	return false
}

func (a *quotaAlarm) size() int64 { return a.server.Backend().Size() }

func (a *quotaAlarm) disarmSize() int64 { return int64(disarmThreshold * float64(a.quota)) }
