// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/controllers/leadership"
)

// event is a line of standard output.
type event struct {
	// At is CLOCK_BOOTTIME in nanoseconds, which all processes of the machine share.
	At int64 `json:"at"`
	// Event is up, start and stop of a runner, refused for a late write, heap when asked for, or exit.
	Event string `json:"event"`
	Group string `json:"group,omitempty"`
	Term  string `json:"term,omitempty"`
	// Bytes are on the heap after a garbage collection.
	Bytes uint64 `json:"bytes,omitempty"`
}

var saying sync.Mutex

// say writes one line at once, so that a process that is killed leaves whole ones. The time is taken last.
func say(e event) {
	saying.Lock()
	defer saying.Unlock()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
	}
	e.At = now.Nano()
	line, err := json.Marshal(e)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
	}
	_, _ = os.Stdout.Write(append(line, '\n'))
}

var errTold = errors.New("told to fail")

// writer is the runner of a group. It puts its term into the group's ConfigMap, again and again.
type writer struct {
	settings
	client      kubernetes.Interface
	group, term string
	order       *order
	// synced waits for the cache; nil means that there is none.
	synced func(context.Context)
}

// runners are the writer, and its cache if it has one.
func (w *writer) runners() []leadership.Runnable {
	out := []leadership.Runnable{{Name: "writer", Run: w.run}}
	if w.caches {
		factory := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithNamespace(w.namespace))
		configMaps := factory.Core().V1().ConfigMaps().Informer()
		w.synced = func(ctx context.Context) {
			for !configMaps.HasSynced() && ctx.Err() == nil {
				pause(ctx, time.Millisecond)
			}
		}
		out = append(out, leadership.Informers("cache", factory))
	}
	return out
}

// run goes on for a moment after it was told to stop, as runners do that finish what they have begun.
func (w *writer) run(ctx context.Context) error {
	if w.synced != nil {
		w.synced(ctx)
	}
	say(event{Event: "start", Group: w.group, Term: w.term})
	defer say(event{Event: "stop", Group: w.group, Term: w.term})
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		if w.finish > 0 {
			pause(writing, rand.N(w.finish))
		}
		if !w.order.stuck.Load() {
			stop()
		}
	})()
	for n := 0; writing.Err() == nil; n++ {
		if !w.idle {
			if err := w.write(writing, n); fencing.IsTermOver(err) {
				say(event{Event: "refused", Group: w.group, Term: w.term})
			}
		}
		if err := w.wait(writing, w.pause); err != nil {
			return err
		}
	}
	return nil
}

// write is a patch without a resourceVersion, so that nothing but the fence keeps a late one out.
func (w *writer) write(ctx context.Context, n int) error {
	patch := fmt.Appendf(nil, `{"data":{"term":%q,"n":"%d"}}`, w.term, n)
	_, err := w.client.CoreV1().ConfigMaps(w.namespace).Patch(ctx, w.group, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (w *writer) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-w.order.fail:
		return errTold
	case <-w.order.panics:
		panic(errTold) //nolint:forbidigo // what a runner must not do, and leadership copes with
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
