// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

const taskClearField = "ClearField"

// clearing turns a feature of Annex's own off while many objects have its field.
func clearing(ctx context.Context, s settings, results *table) error {
	a, err := startAnnex(ctx, s, "clearing", clearingArgs(0)...)
	if err != nil {
		return err
	}
	defer func() { a.stop() }()
	if _, err = turn(ctx, a, v1alpha1.ValueEnabled); err != nil {
		return err
	}
	progress("creating %d objects", s.objects)
	began := time.Now()
	if err = createBalloons(ctx, a, s.objects); err != nil {
		return err
	}
	results.add(fmt.Sprintf("%d clients create %d NodeBalloons", writers, s.objects), "", "%.0f/s", float64(s.objects)/time.Since(began).Seconds())
	if err = unlimited(ctx, a, results); err != nil {
		return err
	}
	for range s.kills {
		if err = killed(ctx, s, a, s.objects/10, results); err != nil {
			return err
		}
	}
	a.stop()
	if err = a.start(ctx, s, clearingArgs(s.qps)...); err != nil {
		return err
	}
	return limited(ctx, s, a, results)
}

func clearingArgs(qps float64) []string {
	return []string{
		"--dynamic-features=" + gateNamespace + "/" + gate, "--feature-answer-window=1s", "--task-qps=" + strconv.FormatFloat(qps, 'f', -1, 64),
	}
}

// unlimited clears all objects as fast as it goes.
func unlimited(ctx context.Context, a *annex, results *table) error {
	before, err := storedBalloons(ctx, a)
	if err != nil {
		return err
	}
	g, err := turn(ctx, a, v1alpha1.ValueDisabled)
	if err != nil {
		return err
	}
	after, err := storedBalloons(ctx, a)
	if err != nil {
		return err
	}
	w := compare(before, after)
	took := g.took(taskClearField)
	results.add(fmt.Sprintf("ClearField without limit, %d objects of which %d have the field", len(before), w.having), "≥ 1000 objects/s",
		"%.0f objects/s, %.0f of them written (%.1f s)", float64(len(before))/took.Seconds(), float64(w.having)/took.Seconds(), took.Seconds())
	results.add("writes of the objects without the field, and more than one of others", "0 and 0", "%d and %d", w.cleanWrites, w.repeated)
	return w.check()
}

// killed sets the field again in the first objects, and kills the server while it clears them, at a moment that differs.
func killed(ctx context.Context, s settings, a *annex, objects int, results *table) error {
	if _, err := turn(ctx, a, v1alpha1.ValueEnabled); err != nil {
		return err
	}
	if err := fillBalloons(ctx, a, objects); err != nil {
		return err
	}
	before, err := storedBalloons(ctx, a)
	if err != nil {
		return err
	}
	if err = wish(ctx, a, v1alpha1.ValueDisabled); err != nil {
		return err
	}
	g := &gateFeature{annex: a}
	least := int64(rand.N(objects))
	err = g.until(ctx, func(f *v1alpha1.Feature) bool {
		return f.Status.State == v1alpha1.StateOff || len(f.Status.Tasks) > 0 && f.Status.Tasks[0].Name == taskClearField && f.Status.Tasks[0].Done >= least
	})
	if err != nil {
		return err
	}
	a.process.Kill()
	at, began := g.last.Status, time.Now()
	if err = a.start(ctx, s, clearingArgs(0)...); err != nil {
		return err
	}
	g = &gateFeature{annex: a}
	if err = g.until(ctx, in(v1alpha1.StateOff)); err != nil {
		return err
	}
	after, err := storedBalloons(ctx, a)
	if err != nil {
		return err
	}
	w := compare(before, after)
	done := int64(0)
	if len(at.Tasks) > 0 {
		done = at.Tasks[0].Done
	}
	results.add(fmt.Sprintf("SIGKILL of the server while it clears %d of %d objects: repeated writes", w.having, len(before)), "one page",
		"%d; killed when it had told of %d; Off %.1f s after the kill", w.repeated, done, time.Since(began).Seconds())
	return w.check()
}

// limited clears at the default limit, beside users.
func limited(ctx context.Context, s settings, a *annex, results *table) (err error) {
	u, err := startUsers(ctx, a.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.close()) }()
	var compared ratios
	for range s.questions {
		if _, err = turn(ctx, a, v1alpha1.ValueEnabled); err != nil {
			return err
		}
		if err = fillBalloons(ctx, a, s.limited); err != nil {
			return err
		}
		before, err := s.quietly(ctx, u)
		if err != nil {
			return err
		}
		g, err := turn(ctx, a, v1alpha1.ValueDisabled)
		if err != nil {
			return err
		}
		began := g.tasks[taskClearField]
		took := g.took(taskClearField)
		during := u.between(began, began.Add(took))
		after, err := s.quietly(ctx, u)
		if err != nil {
			return err
		}
		results.add(fmt.Sprintf("ClearField at %.0f requests/s, users meanwhile, %s", s.qps, columns), "", "%s in %.0f s", during, took.Seconds())
		results.add("users before and after", "", "%s and %s", before, after)
		compared.add(during, before, after)
	}
	results.add("users during ClearField at the limit, to before and after: median ratios of p50 / p95 / p99", "p99 ≤ 1.2", "%s", &compared)
	return nil
}

// took is how long a task was in front.
func (g *gateFeature) took(task string) time.Duration {
	began, ended := g.tasks[task], time.Time{}
	for _, at := range g.tasks {
		if at.After(began) && (ended.IsZero() || at.Before(ended)) {
			ended = at
		}
	}
	return ended.Sub(began)
}
