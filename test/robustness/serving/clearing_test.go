// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	nodev1alpha1 "github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	gateNamespace = "annex-system"
	gate          = "NodeBalloonReclaimPolicy"
	balloonsAt    = "/annex.io/registry/node.k8s.io/nodeballoons/"
)

// TestKilledWhileClearing kills a server again and again while it clears a field, when it has cleared another number of objects each time,
// and starts it anew. In the end no object has the field, those that had it not were never written, and none was written twice.
func TestKilledWhileClearing(t *testing.T) {
	t.Parallel()
	_, random := seeded(t)
	objects, kills, perSecond := quickOr(200, 1000), quickOr(1, 20), quickOr(50, 400)
	u := startUp(t, "", "--dynamic-features="+gateNamespace+"/"+gate, "--feature-answer-window=1s", fmt.Sprintf("--task-qps=%d", perSecond))
	inParallel(t, objects, 1, func(ctx context.Context, i int) error {
		_, err := u.annex.NodeV1alpha1().NodeBalloons().Create(ctx, balloon(i), metav1.CreateOptions{})
		return err
	})
	late := 0
	for round := range kills {
		u.turn(v1alpha1.ValueEnabled)
		u.waitFor("On", func(f *v1alpha1.Feature) bool { return f.Status.State == v1alpha1.StateOn })
		u.setField(objects)
		before := u.stored()
		u.turn(v1alpha1.ValueDisabled)
		most := random.IntN(objects/2 - 1)
		poll.Eventually(t, patience, "the server clears", func(context.Context) error {
			if left := u.having(); left > most+1 {
				return fmt.Errorf("%d objects have the field", left)
			}
			return nil
		})
		u.process.Kill()
		u.start()
		u.waitReady()
		left := u.having()
		if left == 0 {
			late++
		}
		took := u.waitFor("Off", func(f *v1alpha1.Feature) bool { return f.Status.State == v1alpha1.StateOff })
		after := u.stored()
		having, repeated := 0, 0
		for key, was := range before {
			now := after[key]
			switch writes := now.version - was.version; {
			case now.has:
				t.Errorf("%s still has the field", key)
			case !was.has && writes != 0:
				t.Errorf("%s had not the field and was written %d times", key, writes)
			case was.has && writes == 0:
				t.Errorf("%s had the field and was not written", key)
			case was.has:
				having++
				repeated += int(writes) - 1
			}
		}
		if repeated > 0 {
			t.Errorf("%d objects were written again", repeated)
		}
		if len(after) != objects || having != objects/2 {
			t.Errorf("%d objects of which %d had the field, want %d and %d", len(after), having, objects, objects/2)
		}
		t.Logf("round %d: killed with %d of %d objects still to clear; Off %s after the next start", round, left, having, took.Round(time.Millisecond))
	}
	if late == kills {
		t.Error("nothing was left to clear whenever it was killed")
	}
}

func balloon(i int) *nodev1alpha1.NodeBalloon {
	return &nodev1alpha1.NodeBalloon{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("balloon-%04d", i)},
		Spec:       nodev1alpha1.NodeBalloonSpec{NodeSize: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}
}

// turn asks for a value of the feature.
func (u *up) turn(value v1alpha1.Value) {
	u.t.Helper()
	u.waitFor("dynamic", func(f *v1alpha1.Feature) bool { return f.Status.Dynamic })
	_, err := u.annex.FeaturesV1alpha1().Features(gateNamespace).Patch(u.t.Context(), gate, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"desired":%q}}`, value), metav1.PatchOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
}

func (u *up) waitFor(what string, is func(*v1alpha1.Feature) bool) time.Duration {
	u.t.Helper()
	return poll.Eventually(u.t, 2*patience, "the Feature is "+what, func(ctx context.Context) error {
		feature, err := u.annex.FeaturesV1alpha1().Features(gateNamespace).Get(ctx, gate, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !is(feature) {
			return fmt.Errorf("it is %+v", feature.Status)
		}
		return nil
	})
}

// setField sets it in every other object.
func (u *up) setField(objects int) {
	u.t.Helper()
	inParallel(u.t, objects, 2, func(ctx context.Context, i int) error {
		_, err := u.annex.NodeV1alpha1().NodeBalloons().Patch(ctx, balloon(i).Name, types.MergePatchType, []byte(`{"spec":{"reclaimPolicy":"Hold"}}`), metav1.PatchOptions{})
		return err
	})
}

// inParallel does something for each number below a limit, in steps.
func inParallel(t *testing.T, limit, step int, do func(ctx context.Context, i int) error) {
	t.Helper()
	const workers = 8
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			for i := w * step; i < limit; i += workers * step {
				if err := do(t.Context(), i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	if working.Wait(); t.Failed() {
		t.FailNow()
	}
}

// storedObject is how etcd has an object.
type storedObject struct {
	version int64
	has     bool
}

// having is how many objects have the field.
func (u *up) having() (count int) {
	u.t.Helper()
	for _, now := range u.stored() {
		if now.has {
			count++
		}
	}
	return count
}

func (u *up) stored() map[string]storedObject {
	u.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(u.dir, "etcd", "client.sock")}, Logger: zap.NewNop()})
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	found, err := client.Get(u.t.Context(), balloonsAt, clientv3.WithPrefix())
	if err != nil {
		u.t.Fatal(err)
	}
	if len(found.Kvs) == 0 {
		u.t.Fatal(errors.New("nothing is stored"))
	}
	out := map[string]storedObject{}
	for _, kv := range found.Kvs {
		out[string(kv.Key)] = storedObject{version: kv.Version, has: strings.Contains(string(kv.Value), "Hold") || strings.Contains(string(kv.Value), "reclaimPolicy")}
	}
	return out
}
