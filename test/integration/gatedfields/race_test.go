// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gatedfields_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

// interrupted lets something happen between the answer of a feature and the write that it was for.
type interrupted struct {
	resource.Permits
	interrupt *atomic.Pointer[func()]
}

func (p interrupted) Read(ctx context.Context, gate string) (resource.Permit, error) {
	return p.after(p.Permits.Read(ctx, gate))
}

func (p interrupted) Recall(ctx context.Context, gate string) (resource.Permit, error) {
	return p.after(p.Permits.Recall(ctx, gate))
}

func (p interrupted) after(permit resource.Permit, err error) (resource.Permit, error) {
	if interrupt := p.interrupt.Load(); interrupt != nil {
		(*interrupt)()
	}
	return permit, err
}

func startInterrupted(t *testing.T) (*server.Server, *atomic.Pointer[func()]) {
	t.Helper()
	interrupt := &atomic.Pointer[func()]{}
	return server.Start(t, server.Options{Around: func(permits resource.Permits) resource.Permits {
		return interrupted{Permits: permits, interrupt: interrupt}
	}}), interrupt
}

// TestFeatureChangesBetweenAnswerAndWrite turns the feature off when it has just permitted a write that has not happened yet.
func TestFeatureChangesBetweenAnswerAndWrite(t *testing.T) {
	t.Parallel()
	for path, r := range rows {
		for how, verb := range verbs {
			if verb.creates && r.subresource != "" || verb.strategic && r.strategic == nil {
				continue
			}
			for _, state := range []featuresv1alpha1.State{off, turningOff} {
				t.Run(fmt.Sprintf("%s, %s, %s", path, how, state), func(t *testing.T) {
					t.Parallel()
					s, interrupt := startInterrupted(t)
					c := widgetsOf(t, s)
					setStates(t, s, on)
					var before *unstructured.Unstructured
					if !verb.creates {
						before = r.create(t, c, "widget", r.without)
					}
					var once sync.Once
					change := func() { once.Do(func() { setState(t, s, r.gate, state) }) }
					interrupt.Store(&change)
					out, err := verb.write(t, c, r, "widget", before, false)
					if r.rejected {
						if !apierrors.IsInvalid(err) {
							t.Errorf("got %v, want 422", err)
						}
					} else if err != nil || r.has(out) {
						t.Errorf("got %v, %v, want it without the field", out, err)
					}
					if stored, _ := raw(t, s, "widget"); bytes.Contains(stored, []byte(r.leaf)) {
						t.Errorf("the field was stored after its feature had changed")
					}
				})
			}
		}
	}
}

// TestFeatureThatKeepsChanging has the feature change under each attempt.
func TestFeatureThatKeepsChanging(t *testing.T) {
	t.Parallel()
	s, interrupt := startInterrupted(t)
	setStates(t, s, on)
	attempts := 0
	change := func() {
		attempts++
		setState(t, s, color, on, fmt.Sprintf("Task%d", attempts))
	}
	interrupt.Store(&change)
	_, err := widgetsOf(t, s).Create(t.Context(), widget("widget", rows["spec.color"].with), metav1.CreateOptions{})
	if !apierrors.IsConflict(err) || attempts != 5 {
		t.Errorf("got %v after %d attempts, want 409 after 5", err, attempts)
	}
}

// TestNoWriteBehindTheChange has writers of two replicas set a field all the time while it begins to turn off, and looks at all that etcd
// has seen.
func TestNoWriteBehindTheChange(t *testing.T) {
	t.Parallel()
	first := server.Start(t, server.Options{})
	second := server.Start(t, server.Options{Prefix: first.Prefix})
	setStates(t, first, on)
	began := revisionOf(t, first)
	const writers, enough = 4, 20
	var running sync.WaitGroup
	var kept, dropped [2 * writers]atomic.Int64
	stop := make(chan struct{})
	for i := range 2 * writers {
		c := widgetsOf(t, []*server.Server{first, second}[i%2])
		running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				switch out, err := writeColor(t, c, fmt.Sprintf("widget-%d-%d", i, n/4), n); {
				case err != nil && !apierrors.IsConflict(err):
					t.Errorf("writing: %v", err)
					return
				case err == nil && rows["spec.color"].has(out):
					kept[i].Add(1)
				case err == nil:
					dropped[i].Add(1)
				}
			}
		})
	}
	all := func(counts *[2 * writers]atomic.Int64) func(context.Context) error {
		return func(context.Context) error {
			for i := range counts {
				if n := counts[i].Load(); n < enough {
					return fmt.Errorf("writer %d has done so %d times", i, n)
				}
			}
			return nil
		}
	}
	poll.Eventually(t, waitForAnswers, "all have set the field", all(&kept))
	setState(t, first, color, turningOff)
	poll.Eventually(t, waitForAnswers, "all have had it dropped", all(&dropped))
	close(stop)
	running.Wait()

	feature := first.Key(schema.GroupResource{Group: featuresv1alpha1.GroupName, Resource: "features"}, server.Namespace, color)
	out, err := first.Etcd.Get(t.Context(), feature)
	if err != nil || len(out.Kvs) != 1 {
		t.Fatalf("reading the feature: %v, %v", out, err)
	}
	changed := out.Kvs[0].ModRevision
	before, after := colours(t, first, began, changed)
	if before == 0 || after != 0 {
		t.Errorf("%d writes with the field before the feature changed and %d behind it, want some and none", before, after)
	}
}

// writeColor sets the colour in one way after the other.
func writeColor(t *testing.T, c client, name string, n int) (*unstructured.Unstructured, error) {
	r := rows["spec.color"]
	switch n % 4 {
	case 0:
		return c.Create(t.Context(), r.body(name, r.with), metav1.CreateOptions{})
	case 1:
		if _, err := c.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"color":null}}`), metav1.PatchOptions{}); err != nil {
			return nil, err
		}
		return c.Patch(t.Context(), name, types.MergePatchType, encode(t, r.merge), metav1.PatchOptions{})
	case 2:
		return c.Patch(t.Context(), name, types.ApplyPatchType, encode(t, r.body(name, object{"width": int64(n), "color": r.value})), metav1.PatchOptions{FieldManager: firstWriter, Force: new(true)})
	default:
		if err := c.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			return nil, err
		}
		return c.Update(t.Context(), r.body(name, r.with), metav1.UpdateOptions{})
	}
}

func revisionOf(t *testing.T, s *server.Server) int64 {
	t.Helper()
	out, err := s.Etcd.Get(t.Context(), s.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	return out.Header.Revision
}

// colours counts the writes of widgets that had a colour, up to the change and behind it.
func colours(t *testing.T, s *server.Server, began, changed int64) (before, after int) {
	t.Helper()
	end := revisionOf(t, s)
	prefix := s.Prefix + "/" + server.WidgetResource.Group + "/"
	events := s.Etcd.Watch(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithRev(began+1), clientv3.WithProgressNotify())
	if err := s.Etcd.RequestProgress(t.Context()); err != nil {
		t.Fatal(err)
	}
	for response := range events {
		if err := response.Err(); err != nil {
			t.Fatal(err)
		}
		for _, event := range response.Events {
			if event.Type != clientv3.EventTypePut || !bytes.Contains(event.Kv.Value, []byte(rows["spec.color"].value)) {
				continue
			}
			if event.Kv.ModRevision > changed {
				after++
			} else {
				before++
			}
		}
		if response.Header.Revision >= end {
			return before, after
		}
		if err := s.Etcd.RequestProgress(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the history ended early")
	return before, after
}

// remembering recalls one answer for ever.
type remembering struct {
	resource.Permits
	permit resource.Permit
}

func (p remembering) Recall(context.Context, string) (resource.Permit, error) { return p.permit, nil }

// TestOldAnswersDoNotCount has replicas that remember what is long over, for writes and dry runs alike.
func TestOldAnswersDoNotCount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		remembered resource.Permission
		state      featuresv1alpha1.State
	}{
		"it was on":  {resource.Permitted, off},
		"it was off": {resource.Off, on},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.Options{Around: func(permits resource.Permits) resource.Permits {
				return remembering{Permits: permits, permit: resource.Permit{Permission: tc.remembered, Key: "/no/such/feature", Revision: 1}}
			}})
			setStates(t, s, tc.state)
			r := rows["spec.color"]
			for _, dry := range []bool{true, false} {
				out, err := verbs["create"].write(t, widgetsOf(t, s), r, "widget", nil, dry)
				if err != nil || r.has(out) != (tc.state == on) {
					t.Errorf("dry run %t: got %v, %v, want it with the field: %t", dry, out, err, tc.state == on)
				}
			}
		})
	}
}
