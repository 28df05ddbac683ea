// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

const (
	balloons = "/apis/node.k8s.io/v1alpha1/nodeballoons"
	// gate permits spec.reclaimPolicy.
	gate          = "NodeBalloonReclaimPolicy"
	gateNamespace = "annex-system"
	writers       = 16
	// pollInterval is how often the Feature is looked at: seldom enough for users not to notice.
	pollInterval = 200 * time.Millisecond
	// policy is what the field has; nothing else of an object contains it.
	policy = "Hold"
)

// hasField tells whether the i-th object gets the field: nine of ten.
func hasField(i int) bool { return i%10 != 9 }

func balloonName(i int) string { return fmt.Sprintf("node-%06d", i) }

// each does something for numbers below count, with several clients.
func each(ctx context.Context, config *rest.Config, count int, do func(ctx context.Context, client *http.Client, base string, i int) error) error {
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(url.String(), "/")
	var next atomic.Int64
	var working sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		client, err := rest.HTTPClientFor(separate(config))
		if err != nil {
			return err
		}
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < count; i = int(next.Add(1)) - 1 {
				if errs[w] = do(ctx, client, base, i); errs[w] != nil {
					return
				}
			}
		})
	}
	working.Wait()
	return errors.Join(errs...)
}

// createBalloons makes objects.
func createBalloons(ctx context.Context, a *annex, count int) error {
	return each(ctx, a.config, count, func(ctx context.Context, client *http.Client, base string, i int) error {
		field := ""
		if hasField(i) {
			field = fmt.Sprintf(`,"reclaimPolicy":%q`, policy)
		}
		return send(ctx, client, http.MethodPost, base+balloons, fmt.Appendf(nil,
			`{"apiVersion":"node.k8s.io/v1alpha1","kind":"NodeBalloon","metadata":{"name":%q},"spec":{"balloonSize":{"cpu":"1","memory":"1Gi"}%s}}`, balloonName(i), field))
	})
}

// fillBalloons sets the field of the first objects again, but for one of ten.
func fillBalloons(ctx context.Context, a *annex, count int) error {
	return each(ctx, a.config, count, func(ctx context.Context, client *http.Client, base string, i int) error {
		if !hasField(i) {
			return nil
		}
		return patch(ctx, client, base+balloons+"/"+balloonName(i), fmt.Appendf(nil, `{"spec":{"reclaimPolicy":%q}}`, policy))
	})
}

func patch(ctx context.Context, client *http.Client, url string, body []byte) error {
	return sendAs(ctx, client, http.MethodPatch, url, "application/merge-patch+json", body)
}

// balloon is what etcd has of an object.
type balloon struct {
	// version counts its writes.
	version int64
	has     bool
}

// storedBalloons reads all objects from etcd, past every server.
func storedBalloons(ctx context.Context, a *annex) (map[string]balloon, error) {
	client, err := connect(ctx, a.socket())
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	out := map[string]balloon{}
	const page = 2000
	for from, end := balloonsPrefix, clientv3.GetPrefixRangeEnd(balloonsPrefix); ; {
		some, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page))
		if err != nil {
			return nil, fmt.Errorf("read etcd: %w", err)
		}
		for _, kv := range some.Kvs {
			out[string(kv.Key)] = balloon{version: kv.Version, has: bytes.Contains(kv.Value, []byte(policy))}
			from = string(kv.Key) + "\x00"
		}
		if !some.More {
			return out, nil
		}
	}
}

// written counts writes between two readings, by what the object had before.
type written struct {
	// having had the field: cleared are those that were written once, repeated the writes beyond one of each, and left those that have
	// it still.
	having, cleared, repeated, left int
	// clean had no field, and cleanWrites are the writes of them.
	clean, cleanWrites int
}

func compare(before, after map[string]balloon) written {
	var out written
	for key, was := range before {
		now := after[key]
		writes := int(now.version - was.version)
		switch {
		case !was.has:
			out.clean++
			out.cleanWrites += writes
		default:
			out.having++
			if writes > 0 && !now.has {
				out.cleared++
				out.repeated += writes - 1
			}
		}
		if now.has {
			out.left++
		}
	}
	return out
}

// check returns what is wrong if the field was to be cleared everywhere, with one write of each object that had it and none of others.
func (w written) check() error {
	if w.left > 0 || w.cleared != w.having || w.cleanWrites > 0 || w.repeated > 0 {
		return fmt.Errorf("%d of %d objects that had the field were cleared, with %d writes too many; %d have it; %d writes of %d objects without it",
			w.cleared, w.having, w.repeated, w.left, w.cleanWrites, w.clean)
	}
	return nil
}

// gateFeature follows the Feature of the gate.
type gateFeature struct {
	annex *annex
	// tasks is when the Feature was first seen with a task in front; it is empty for none.
	tasks map[string]time.Time
	last  *v1alpha1.Feature
}

// wish asks for a value.
func wish(ctx context.Context, a *annex, value v1alpha1.Value) error {
	body := fmt.Appendf(nil, `{"spec":{"desired":%q}}`, value)
	_, err := a.features.FeaturesV1alpha1().Features(gateNamespace).Patch(ctx, gate, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// until waits until the Feature is as wanted, and notes when it has which task in front.
func (g *gateFeature) until(ctx context.Context, wanted func(*v1alpha1.Feature) bool) error {
	if g.tasks == nil {
		g.tasks = map[string]time.Time{}
	}
	client := g.annex.features.FeaturesV1alpha1().Features(gateNamespace)
	deadline := time.Now().Add(setUp)
	for {
		feature, err := client.Get(ctx, gate, metav1.GetOptions{})
		if err == nil {
			g.last = feature
			task := ""
			if tasks := feature.Status.Tasks; len(tasks) > 0 {
				task = tasks[0].Name
			}
			if g.tasks[task].IsZero() {
				g.tasks[task] = time.Now()
			}
			if wanted(feature) {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the Feature %s is not as it should be after %s (%w): %+v", gate, setUp, err, g.last)
		}
		if err := pause(ctx, pollInterval); err != nil {
			return err
		}
	}
}

func in(state v1alpha1.State) func(*v1alpha1.Feature) bool {
	return func(f *v1alpha1.Feature) bool { return f.Status.State == state }
}

// turn asks for a value and waits for its state.
func turn(ctx context.Context, a *annex, value v1alpha1.Value) (*gateFeature, error) {
	state := v1alpha1.StateOff
	if value == v1alpha1.ValueEnabled {
		state = v1alpha1.StateOn
	}
	g := &gateFeature{annex: a}
	// A server that has just started announces it first.
	if err := g.until(ctx, func(f *v1alpha1.Feature) bool { return f.Status.Dynamic }); err != nil {
		return nil, err
	}
	g.tasks = nil
	if err := wish(ctx, a, value); err != nil {
		return nil, err
	}
	return g, g.until(ctx, in(state))
}
