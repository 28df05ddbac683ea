// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package singlewriter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/test/cluster"
)

const (
	leaseKeys     = "/registry/coordination.k8s.io/leases/"
	configMapKeys = "/registry/core/configmaps/"
	fenceKeys     = "/annex.io/fences/"
	termData      = "term"
)

// History replays what etcd has committed and checks every write of a group. It needs nothing of the workers but the term that is
// in what they write.
type History struct {
	namespace string
	groups    map[string]*past
	violated  chan struct{}

	mu         sync.Mutex
	revision   int64
	writes     int
	violations []string
	// busiest is the most terms of one group that began within a second.
	busiest int
}

// past is what is known of one group at the revision that was reached.
type past struct {
	// current is the term of the Lease, nil while there is no Lease; fence is what the fence key holds, nil if it is not there.
	current, fence *string
	holder         string
	// over are the terms that have ended, writer the one that wrote last, and retired those that another one wrote after.
	over, retired map[string]bool
	writer        string
	terms, writes int
	wroteAt       int64
	released      bool
	// began are the times, by our clock, at which terms of the last second began.
	began []time.Time
}

// NewHistory returns the history of groups whose Leases and ConfigMaps have their names, in a namespace of their own.
func NewHistory(namespace string, groups []string) *History {
	h := &History{namespace: namespace, groups: map[string]*past{}, violated: make(chan struct{})}
	for _, name := range groups {
		h.groups[name] = &past{over: map[string]bool{}, retired: map[string]bool{}}
	}
	return h
}

// Follow replays from the first revision on until the context ends; the etcd at the socket may be away in between.
func (h *History) Follow(ctx context.Context, socket string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}, Context: ctx, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	return cluster.Follow(ctx, client, h.Revision, h.take)
}

// take goes through whole revisions.
func (h *History) take(events []*clientv3.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, e := range events {
		h.revision = e.Kv.ModRevision
		if err := h.event(e); err != nil {
			return fmt.Errorf("revision %d, %s: %w", h.revision, e.Kv.Key, err)
		}
		if i+1 == len(events) || events[i+1].Kv.ModRevision != h.revision {
			h.revisionEnds()
		}
	}
	return nil
}

func (h *History) event(e *clientv3.Event) error {
	key := string(e.Kv.Key)
	name := key[strings.LastIndex(key, "/")+1:]
	group := h.groups[name]
	switch {
	case group == nil:
		return nil
	case key == leaseKeys+h.namespace+"/"+name:
		return h.lease(name, group, e)
	case key == fenceKeys+h.namespace+"/"+name:
		group.fence = nil
		if e.Type != clientv3.EventTypeDelete {
			value := string(e.Kv.Value)
			group.fence = &value
		}
	case key == configMapKeys+h.namespace+"/"+name && e.Type != clientv3.EventTypeDelete:
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(e.Kv.Value, nil, nil)
		if err != nil {
			return err
		}
		configMap, ok := object.(*corev1.ConfigMap)
		if !ok {
			return errors.New("not a ConfigMap")
		}
		if term, written := configMap.Data[termData]; written {
			h.write(name, group, term)
		}
	}
	return nil
}

func (h *History) lease(name string, group *past, e *clientv3.Event) error {
	last := group.current
	group.current, group.holder, group.released = nil, "", false
	if e.Type != clientv3.EventTypeDelete {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(e.Kv.Value, nil, nil)
		if err != nil {
			return err
		}
		lease, ok := object.(*coordinationv1.Lease)
		if !ok {
			return errors.New("not a Lease")
		}
		term := fencing.Current(lease)
		value := term.Value()
		group.current, group.holder = &value, term.Holder
		group.released = term.Holder == "" && lease.Annotations[fencing.ReleasedAnnotation] != ""
	}
	if last != nil && (group.current == nil || *group.current != *last) {
		group.over[*last] = true
	}
	if group.current != nil && group.holder != "" && (last == nil || *group.current != *last) {
		group.terms++
		h.began(group)
		if group.over[*group.current] {
			h.violate("%s: the term %s begins for a second time", name, *group.current)
		}
	}
	return nil
}

// began counts the terms of a group within a second.
func (h *History) began(group *past) {
	now := time.Now()
	recent := slices.IndexFunc(group.began, func(at time.Time) bool { return now.Sub(at) < time.Second })
	if recent < 0 {
		recent = len(group.began)
	}
	group.began = append(group.began[recent:], now)
	h.busiest = max(h.busiest, len(group.began))
}

// Busiest is the most terms of one group that began within a second.
func (h *History) Busiest() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.busiest
}

// write checks what was written under a term.
func (h *History) write(name string, group *past, term string) {
	h.writes++
	group.writes++
	switch {
	case group.current == nil:
		h.violate("%s: write of %s while there is no Lease", name, term)
	case *group.current != term:
		h.violate("%s: write of %s in the term %s", name, term, *group.current)
	default:
		group.wroteAt = h.revision
	}
	if group.retired[term] {
		h.violate("%s: write of %s after one of %s", name, term, group.writer)
	}
	if group.writer != "" && group.writer != term {
		group.retired[group.writer] = true
	}
	group.writer = term
}

// revisionEnds checks that fence keys follow their Leases from revision to revision.
func (h *History) revisionEnds() {
	for name, group := range h.groups {
		if (group.current == nil) != (group.fence == nil) || group.current != nil && *group.current != *group.fence {
			h.violate("%s: the Lease is in the term %s, the fence key holds %s", name, text(group.current), text(group.fence))
		}
	}
}

func text(s *string) string {
	if s == nil {
		return "(nothing)"
	}
	return *s
}

func (h *History) violate(format string, values ...any) {
	if len(h.violations) == 0 {
		close(h.violated)
	}
	h.violations = append(h.violations, fmt.Sprintf("revision %d: ", h.revision)+fmt.Sprintf(format, values...))
}

// Violated is closed with the first violation.
func (h *History) Violated() <-chan struct{} { return h.violated }

// Violations are all that were found so far.
func (h *History) Violations() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.violations)
}

// Revision is how far the history was followed.
func (h *History) Revision() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision
}

// LedBy lists the groups whose Lease names a holder with the prefix.
func (h *History) LedBy(prefix string) []string {
	return h.where(func(group *past) bool { return group.holder != "" && strings.HasPrefix(group.holder, prefix) })
}

// SilentSince lists the groups that have no holder or no write of the present term after the revision.
func (h *History) SilentSince(revision int64) []string {
	return h.where(func(group *past) bool {
		return group.holder == "" || group.wroteAt <= revision || group.writer != *group.current
	})
}

// Unreleased lists the groups whose Lease was not released.
func (h *History) Unreleased() []string {
	return h.where(func(group *past) bool { return !group.released })
}

func (h *History) where(holds func(*past) bool) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for name, group := range h.groups {
		if holds(group) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Counts returns the writes that were checked, the terms that were seen and the fewest writes of a group.
func (h *History) Counts() (writes, terms, fewest int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := true
	for _, group := range h.groups {
		terms += group.terms
		if first || group.writes < fewest {
			fewest = group.writes
		}
		first = false
	}
	return h.writes, terms, fewest
}
