// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package singlewriter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/test/robustness/validate"
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
	*validate.History
	namespace string

	groups map[string]*past
	writes int
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
	h := &History{History: validate.NewHistory(0), namespace: namespace, groups: map[string]*past{}}
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
	return h.History.Follow(ctx, client, h.step)
}

// step checks one revision.
func (h *History) step(revision int64, events []*clientv3.Event) error {
	for _, e := range events {
		if err := h.event(revision, e); err != nil {
			return fmt.Errorf("%s: %w", e.Kv.Key, err)
		}
	}
	h.revisionEnds()
	return nil
}

func (h *History) event(revision int64, e *clientv3.Event) error {
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
			h.write(revision, name, group, term)
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
			h.Violate("%s: the term %s begins for a second time", name, *group.current)
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
	h.Lock()
	defer h.Unlock()
	return h.busiest
}

// write checks what was written under a term.
func (h *History) write(revision int64, name string, group *past, term string) {
	h.writes++
	group.writes++
	switch {
	case group.current == nil:
		h.Violate("%s: write of %s while there is no Lease", name, term)
	case *group.current != term:
		h.Violate("%s: write of %s in the term %s", name, term, *group.current)
	default:
		group.wroteAt = revision
	}
	if group.retired[term] {
		h.Violate("%s: write of %s after one of %s", name, term, group.writer)
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
			h.Violate("%s: the Lease is in the term %s, the fence key holds %s", name, text(group.current), text(group.fence))
		}
	}
}

func text(s *string) string {
	if s == nil {
		return "(nothing)"
	}
	return *s
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
	h.Lock()
	defer h.Unlock()
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
	h.Lock()
	defer h.Unlock()
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
