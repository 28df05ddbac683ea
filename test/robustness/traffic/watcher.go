// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/validate"
)

// watcher lists and watches, as an informer does.
type watcher struct {
	load    *Load
	number  int
	servers []*server
	at      int

	// What follows is guarded by the load's lock.
	spells                                      []validate.Spell
	operations                                  []validate.Operation
	lists, watches, events, gone, ended, tooNew int
	// since is when the present watch began; it is 0 while there is none.
	since   int64
	lastErr error
}

// errGone tells to list anew.
var errGone = errors.New("the version is gone")

// run watches until the context ends.
func (w *watcher) run(ctx context.Context, random *rand.Rand) {
	listed := false
	for ctx.Err() == nil {
		var err error
		if !listed {
			if err = w.list(ctx); err == nil {
				listed = true
			}
		}
		if err == nil {
			err = w.watch(ctx, random)
		}
		w.note(func() {
			w.since = 0
			if err != nil && ctx.Err() == nil {
				w.lastErr = err
			}
		})
		if errors.Is(err, errGone) {
			listed = false
			continue
		}
		if err != nil {
			w.at++
			poll.Pause(ctx, 20*time.Millisecond+time.Duration(random.IntN(60))*time.Millisecond)
		}
	}
}

func (w *watcher) note(what func()) {
	w.load.mu.Lock()
	defer w.load.mu.Unlock()
	what()
}

// list begins a spell. The list counts as a read, too.
func (w *watcher) list(ctx context.Context) error {
	c := client{load: w.load, number: w.load.Clients + w.number, servers: w.servers, at: w.at}
	o := validate.Operation{Client: c.number, Verb: validate.List}
	c.send(ctx, &o)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.note(func() {
		w.operations = append(w.operations, o)
		if o.Outcome == validate.Done {
			w.lists++
			w.spells = append(w.spells, validate.Spell{Items: o.Items, From: o.Listed, Reached: o.Listed})
		}
	})
	if o.Outcome != validate.Done {
		return fmt.Errorf("list: %w", o.Err)
	}
	return nil
}

// watch goes on from where the list or the watch before ended.
func (w *watcher) watch(ctx context.Context, random *rand.Rand) error {
	s := w.servers[w.at%len(w.servers)]
	request := s.rest.Get().AbsPath(w.load.Objects.path()).SetHeader("Accept", "application/json").MaxRetries(0).
		Param("watch", "true").Param("allowWatchBookmarks", "true").Param("resourceVersion", strconv.FormatInt(w.reached(), 10))
	if limit := w.load.WatchTimeout; limit > 0 {
		seconds := max(1, int64(limit/time.Second)/2+random.Int64N(int64(limit/time.Second)/2+1))
		request = request.Param("timeoutSeconds", strconv.FormatInt(seconds, 10))
	}
	stream, err := request.Stream(ctx)
	if err != nil {
		return w.refused(err)
	}
	defer func() { _ = stream.Close() }()
	w.note(func() { w.watches, w.since = w.watches+1, w.load.now() })
	decoder := json.NewDecoder(stream)
	for {
		var told struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := decoder.Decode(&told); err != nil {
			w.note(func() { w.ended++ })
			if errors.Is(err, io.EOF) && ctx.Err() == nil {
				// Watches end from time to time.
				return nil
			}
			return fmt.Errorf("read a watch of %s: %w", s.name, err)
		}
		if err := w.take(told.Type, told.Object); err != nil {
			return err
		}
	}
}

func (w *watcher) reached() (version int64) {
	w.note(func() { version = w.spells[len(w.spells)-1].Reached })
	return version
}

// take notes an event.
func (w *watcher) take(kind string, content []byte) error {
	if kind == validate.Failure {
		var status metav1.Status
		if err := json.Unmarshal(content, &status); err != nil {
			return fmt.Errorf("read the end of a watch: %w", err)
		}
		return w.refused(&apierrors.StatusError{ErrStatus: status})
	}
	found, err := w.load.Objects.read(content)
	if err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	w.note(func() {
		present := &w.spells[len(w.spells)-1]
		// What comes in the wrong order is told by the events.
		present.Reached = max(present.Reached, found.Version)
		if kind == validate.Bookmark || w.load.known[found.Name] {
			w.events++
			present.Events = append(present.Events, validate.Event{Kind: kind, Item: found})
		}
	})
	return nil
}

// refused looks at why there is no watch, or none any longer.
func (w *watcher) refused(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code == http.StatusGone {
		w.note(func() { w.gone++ })
		return fmt.Errorf("%w: %w", errGone, err)
	}
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		// Informers list anew, too. The list must not be older than what was seen.
		w.note(func() { w.tooNew++ })
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return fmt.Errorf("watch: %w", err)
}
