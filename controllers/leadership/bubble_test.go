// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"
)

// leaseStore has one Lease, as a server would. It is for bubbles of synctest, in which nothing may wait for a network.
type leaseStore struct {
	coordinationclient.LeaseInterface
	// before is called for every request; an error of it is the answer. Nil does nothing.
	before func(ctx context.Context, verb string) error
	// watcher is what a watch gets; nil is one without events.
	watcher func() watch.Interface

	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
}

func (s *leaseStore) Leases(string) coordinationclient.LeaseInterface { return s }

func (s *leaseStore) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if err := s.request(ctx, "get"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, name)
	}
	return s.lease.DeepCopy(), nil
}

func (s *leaseStore) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if err := s.request(ctx, "create"); err != nil {
		return nil, err
	}
	lease = lease.DeepCopy()
	lease.UID = "uid"
	return s.store(lease), nil
}

func (s *leaseStore) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if err := s.request(ctx, "update"); err != nil {
		return nil, err
	}
	if lease.ResourceVersion != s.stored().ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, lease.Name, nil)
	}
	return s.store(lease), nil
}

func (s *leaseStore) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	if err := s.request(ctx, "watch"); err != nil {
		return nil, err
	}
	if s.watcher != nil {
		return s.watcher(), nil
	}
	return watch.NewFake(), nil
}

func (s *leaseStore) request(ctx context.Context, verb string) error {
	if s.before == nil {
		return nil
	}
	return s.before(ctx, verb)
}

func (s *leaseStore) stored() *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease.DeepCopy()
}

func (s *leaseStore) store(lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.lease = lease.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	return s.lease.DeepCopy()
}

// take gives the Lease to another process.
func (s *leaseStore) take() {
	lease := s.stored()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("host_other_1"), ptr.To(metav1.NowMicro())
	lease.Spec.LeaseTransitions = ptr.To(transitionsOf(lease) + 1)
	s.store(lease)
}

// bubbleGroup is a group of an elector that has no other, with default timings and the clock of a bubble.
type bubbleGroup struct {
	*group
	registry metrics.KubeRegistry
	// zero is the clock's Elapsed when the group was made.
	zero time.Duration
	// started and ended have when work began and ended.
	started, ended []time.Duration
}

func newBubbleGroup(t *testing.T, store *leaseStore, work func(ctx context.Context) error) *bubbleGroup {
	t.Helper()
	b := &bubbleGroup{registry: metrics.NewKubeRegistry(), zero: 1000 * time.Second}
	made := time.Now()
	options := NewOptions()
	options.Client = &rest.Config{Host: "http://server.invalid"}
	options.Host, options.Metrics = "host", NewMetrics()
	options.Clock = Clock{Now: time.Now, Elapsed: func() time.Duration { return b.zero + time.Since(made) }}
	if err := options.Metrics.Register(b.registry.Register); err != nil {
		t.Fatal(err)
	}
	b.group = &group{
		options: options, clock: options.Clock, done: make(chan struct{}), metrics: groupMetrics{Metrics: options.Metrics, name: "g"},
		elector: &Elector{options: options, leases: store, uid: "process", ended: make(chan error, 1)}, status: newStatus(options.Clock, options.Timings),
		Group: Group{Name: "g", Lease: types.NamespacedName{Namespace: "default", Name: "lease"}},
	}
	b.New = func(*Term) ([]Runnable, error) {
		return []Runnable{{Name: "worker", Run: func(ctx context.Context) error {
			b.started = append(b.started, b.now())
			defer func() { b.ended = append(b.ended, b.now()) }()
			return work(ctx)
		}}}, nil
	}
	b.elector.groups = []*group{b.group}
	return b
}

func (b *bubbleGroup) now() time.Duration { return b.clock.Elapsed() - b.zero }

// runFor has the group acquire and lead for a time, and waits until the group has ended.
func (b *bubbleGroup) runFor(t *testing.T, lasting time.Duration, meanwhile func()) {
	t.Helper()
	ctx, stop := context.WithCancelCause(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.acquireAndLead(ctx) })
	if meanwhile != nil {
		running.Go(meanwhile)
	}
	pass(lasting)
	stop(errStopped)
	running.Wait()
}

// held acquires the Lease.
func (b *bubbleGroup) held(t *testing.T) *heldLease {
	t.Helper()
	lock := b.lock()
	lease, err := lock.acquire(t.Context(), nil, b.elector.nextHolder())
	if err != nil {
		t.Fatal(err)
	}
	return &heldLease{lock: lock, lease: lease}
}

// metric returns the value of a counter, or the sum of a histogram.
func (b *bubbleGroup) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() == "leader_election_"+name {
			for _, series := range family.GetMetric() {
				sum += series.GetCounter().GetValue() + series.GetHistogram().GetSampleSum() + series.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a bubble, it takes no time
}

// untilStopped is work without an end of its own.
func untilStopped(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
