// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

// writers set the gated field all the time.
type writers struct {
	stop    chan struct{}
	running sync.WaitGroup
	// kept and dropped are writes whose answer has the field, and has it not; failed had none.
	kept, dropped, failed atomic.Int64
}

// write has so many writers work through a replica until they are told to end.
func write(t *testing.T, c *child, many, round int) *writers {
	t.Helper()
	w := &writers{stop: make(chan struct{})}
	for i := range many {
		w.running.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for n := 0; ; n++ {
				select {
				case <-w.stop:
					return
				case <-pace.C:
					w.once(c, fmt.Sprintf("%s-%d-%d-", c.instance, round, i), n)
				}
			}
		})
	}
	return w
}

// once writes a widget: mostly a new one, since nothing but the guard stands in the way of these.
func (w *writers) once(c *child, prefix string, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out *unstructured.Unstructured
	var err error
	existing := prefix + strconv.Itoa(n-n%6)
	switch n % 6 {
	case 4:
		out, err = c.widgets.Patch(ctx, existing, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"width":%d,"color":%q}}`, n, paint), metav1.PatchOptions{})
	case 5:
		out, err = c.widgets.Apply(ctx, existing, widget(existing, int64(n)), metav1.ApplyOptions{FieldManager: "painter", Force: true})
	default:
		out, err = c.widgets.Create(ctx, widget(prefix+strconv.Itoa(n), int64(n)), metav1.CreateOptions{})
	}
	if err != nil {
		w.failed.Add(1)
		return
	}
	if _, kept, _ := unstructured.NestedString(out.Object, "spec", "color"); kept {
		w.kept.Add(1)
	} else {
		w.dropped.Add(1)
	}
}

// end waits until the last writes have been answered.
func (w *writers) end() {
	close(w.stop)
	w.running.Wait()
}

func (w *writers) String() string {
	return fmt.Sprintf("%d with the field, %d without, %d failed", w.kept.Load(), w.dropped.Load(), w.failed.Load())
}

// waitUntil waits until a count has gone up by some more.
func (s *stage) waitUntil(what string, count *atomic.Int64, more int64) {
	s.t.Helper()
	from := count.Load()
	poll.Eventually(s.t, patience, what, func(context.Context) error {
		if now := count.Load(); now < from+more {
			return fmt.Errorf("%d of %d", now-from, more)
		}
		return nil
	})
}

func widget(name string, width int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": server.WidgetResource.GroupVersion().String(), "kind": "Widget",
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec":     map[string]any{"width": width, "color": paint},
	}}
}
