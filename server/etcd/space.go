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
	// firstRetry and lastRetry bound how long the keeper waits after an attempt that freed too little.
	firstRetry = 2 * time.Second
	lastRetry  = time.Minute
	// freeEnough is the part of the quota below which the alarm is lifted.
	freeEnough = 0.9
)

// spaceKeeper recovers the embedded etcd from the NOSPACE alarm. Compaction and deletes are allowed under the alarm; what
// they free becomes usable by defragmentation.
type spaceKeeper struct {
	server *etcdserver.EtcdServer
	client *clientv3.Client
	quota  int64
	// full says what is wrong while the alarm cannot be lifted.
	full atomic.Pointer[string]
}

func newSpaceKeeper(server *etcdserver.EtcdServer, client *clientv3.Client, quota int64) *spaceKeeper {
	return &spaceKeeper{server: server, client: client, quota: quota}
}

// start watches for the alarm until the returned function is called, which waits for the end of the work.
func (k *spaceKeeper) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { k.run(ctx) })
	return func() {
		cancel()
		work.Wait()
	}
}

func (k *spaceKeeper) run(ctx context.Context) {
	retry := firstRetry
	wait := alarmInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = alarmInterval
		if !k.alarmed() {
			k.full.Store(nil)
			retry = firstRetry
			continue
		}
		freed, err := k.recover(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil && freed {
			k.full.Store(nil)
			klog.Background().Info("etcd had reached its space quota; compacted, defragmented and lifted the alarm", "bytes", k.size(), "quota", k.quota)
			continue
		}
		reason := fmt.Sprintf("etcd has reached its space quota: live data takes %d of %d bytes, and only below %d the store takes writes again; delete what is not needed or raise --etcd-quota-bytes",
			k.size(), k.quota, k.enough())
		if err != nil {
			reason = fmt.Sprintf("etcd has reached its space quota and could not be compacted: %v", err)
		}
		k.full.Store(&reason)
		klog.Background().Error(err, "etcd is full", "reason", reason, "nextAttemptIn", retry)
		wait, retry = retry, min(2*retry, lastRetry)
	}
}

// recover compacts, defragments and lifts the alarm if that freed enough.
func (k *spaceKeeper) recover(ctx context.Context) (bool, error) {
	now, err := k.client.Get(ctx, "/annex.io/health")
	if err != nil {
		return false, err
	}
	if _, err := k.client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil && !isCompacted(err) {
		return false, fmt.Errorf("compact: %w", err)
	}
	if err := k.server.Backend().Defrag(); err != nil {
		return false, fmt.Errorf("defragment: %w", err)
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

// isCompacted tells that somebody else compacted as far in the meantime.
func isCompacted(err error) bool { return isCode(err, rpctypes.ErrCompacted) }
