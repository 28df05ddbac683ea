// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycletest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
)

// Parts of transitions.
const (
	partOn    = "on"    // from TurningOn to On
	partOff   = "off"   // from TurningOff to Off, where nobody uses the features
	partHeld  = "held"  // from TurningOff to where they wait for users
	partFreed = "freed" // from when users have stopped to Off
)

// earlyKills is one of how many kills falls right after the wish, which the server may not have heard yet.
const earlyKills = 8

// part is a stretch of time in which a kill may fall.
type part struct {
	name string
	w    way
}

// parts are how long they take.
type parts map[part]time.Duration

// note remembers how long an undisturbed one took; of several times, the least. The times vary, so some of it is taken off.
func (p parts) note(of part, took time.Duration) {
	took -= took / 4
	if before, known := p[of]; !known || took < before {
		p[of] = took
	}
}

// learn makes up for machines that are faster or slower than they were: kills shall meet features on their way.
func (p parts) learn(of part, met bool) {
	if met {
		p[of] += p[of] / 20
	} else {
		p[of] -= p[of] / 4
	}
}

// turn turns features on, or off; if they are in use, users stop in time.
func (r *runner) turn(on bool, w way, h how) {
	r.t.Helper()
	where := r.where
	defer func() { r.where = where }()
	r.where += ", turning " + map[bool]string{true: "on", false: "off"}[on]
	kill := h.kill
	r.wish(on, w, h)
	if kill && r.random.IntN(earlyKills) == 0 {
		r.kill(0)
		kill = false
	}
	r.waitUntilBegun(r.turned(w), on)
	began := time.Now()
	now := part{partOff, w}
	if on {
		now.name = partOn
	}
	if held := r.held(w); h.use && len(held) > 0 {
		now.name = partHeld
		// Users stop when it waits for them, or as soon as it is turning off.
		soon := h.kill && r.random.IntN(2) == 0
		if kill && r.random.IntN(2) == 0 {
			r.killIn(now)
			kill = false
		}
		r.waitUntilHeld(held, soon)
		if !h.kill {
			r.parts.note(now, time.Since(began))
		}
		for _, c := range held {
			r.call(c.StopUsing)
		}
		began, now.name = time.Now(), partFreed
	}
	if kill {
		r.killIn(now)
	}
	r.settle(r.turned(w), on)
	if !h.kill {
		r.parts.note(now, time.Since(began))
	}
}

// wish begins the transition.
func (r *runner) wish(on bool, w way, h how) {
	r.t.Helper()
	switch {
	case w == byFlags:
		if h.kill {
			r.server.Kill(r.t) // to restart sooner; nothing is on its way
		}
		r.start(values(r.cases, on))
	case on:
		r.desire(v1alpha1.ValueEnabled)
	default:
		r.desire(v1alpha1.ValueDisabled)
	}
}

// desire sets spec.desired of the dynamic features, or takes it away.
func (r *runner) desire(value v1alpha1.Value) {
	r.t.Helper()
	patch := `{"spec":{"desired":null}}`
	if value != "" {
		patch = fmt.Sprintf(`{"spec":{"desired":%q}}`, value)
	}
	for name := range r.dynamic {
		if err := r.poll(r.options.Patience, func(ctx context.Context) error {
			_, err := r.clients.features.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "lifecycletest"})
			return err
		}); err != nil {
			r.fatalf("set spec.desired of Feature %s: %v", name, err)
		}
	}
}

// held returns those whose features wait for users.
func (r *runner) held(w way) []Case {
	return slices.DeleteFunc(slices.Clone(r.turned(w)), func(c Case) bool { return c.StopUsing == nil })
}

// waitUntilHeld waits until features wait for users, and name what they wait for; soon is satisfied with those that are on the way there.
func (r *runner) waitUntilHeld(cases []Case, soon bool) {
	r.t.Helper()
	r.waitFor(cases, func(status *v1alpha1.FeatureStatus, _ bool) string {
		waits := len(status.Tasks) > 0 && status.Tasks[0].Name != featuregate.TaskWaitForUses &&
			status.DanglingReferences != nil && status.DanglingReferences.Count > 0 && len(status.DanglingReferences.Examples) > 0
		if status.State != v1alpha1.StateTurningOff || !soon && !waits {
			return "does not wait for those who use it, and name what they have stored"
		}
		return ""
	})
}

// waitUntilBegun waits until any of the features is on its way, or all have arrived.
func (r *runner) waitUntilBegun(cases []Case, on bool) {
	r.t.Helper()
	begun := false
	r.waitFor(cases, func(status *v1alpha1.FeatureStatus, _ bool) string {
		begun = begun || len(status.Tasks) > 0
		if begun || (status.State == v1alpha1.StateOn) == on {
			return ""
		}
		return "does not begin to become what is wished"
	})
}

// settle waits until features have the value, and nothing is left to be done.
func (r *runner) settle(cases []Case, on bool) {
	r.t.Helper()
	want := v1alpha1.StateOff
	if on {
		want = v1alpha1.StateOn
	}
	r.waitFor(cases, func(status *v1alpha1.FeatureStatus, upToDate bool) string {
		switch {
		case status.State != want || len(status.Tasks) > 0 || !upToDate || !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.FeatureSettled):
			return "has not become " + string(want)
		case !on && status.DanglingReferences != nil && status.DanglingReferences.Count > 0:
			return fmt.Sprintf("is %s, but %d objects use it", want, status.DanglingReferences.Count)
		}
		return ""
	})
}

// waitFor waits until a check finds nothing wrong with any of the features.
func (r *runner) waitFor(cases []Case, check func(status *v1alpha1.FeatureStatus, upToDate bool) string) {
	r.t.Helper()
	if err := r.poll(r.options.Patience, func(ctx context.Context) error {
		features, err := r.listFeatures(ctx)
		if err != nil {
			return err
		}
		for _, c := range cases {
			feature := features[c.Feature]
			if wrong := check(&feature.Status, feature.Status.ObservedGeneration == feature.Generation); wrong != "" {
				return fmt.Errorf("feature %s %s; its status is %+v", c.Feature, wrong, feature.Status)
			}
		}
		return nil
	}); err != nil {
		r.fatalf("%v", err)
	}
}

// features returns the Features of the cases, once all are there.
func (r *runner) features() map[string]*v1alpha1.Feature {
	r.t.Helper()
	var out map[string]*v1alpha1.Feature
	if err := r.poll(r.options.Patience, func(ctx context.Context) (err error) {
		out, err = r.listFeatures(ctx)
		return err
	}); err != nil {
		r.fatalf("%v", err)
	}
	return out
}

func (r *runner) listFeatures(ctx context.Context) (map[string]*v1alpha1.Feature, error) {
	list, err := r.clients.features.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the Features: %w", err)
	}
	out := map[string]*v1alpha1.Feature{}
	for i := range list.Items {
		feature := &list.Items[i]
		if slices.ContainsFunc(r.cases, func(c Case) bool { return c.Feature == feature.Name }) {
			out[feature.Name] = feature
		}
	}
	for _, c := range r.cases {
		if out[c.Feature] == nil {
			return nil, fmt.Errorf("nobody has announced the feature %s in namespace %s", c.Feature, r.options.Namespace)
		}
	}
	return out, nil
}

// killIn kills the server at a random point of a part of a transition.
func (r *runner) killIn(p part) {
	r.t.Helper()
	if _, known := r.parts[p]; !known {
		r.parts[p] = r.parts[part{partOn, p.w}] // nothing undisturbed was like it; it will be learnt
	}
	r.parts.learn(p, r.kill(time.Duration(r.random.Float64()*float64(r.parts[p]))))
}

// kill kills the server after a while, and starts it again. It tells whether a feature was on its way.
func (r *runner) kill(after time.Duration) bool {
	r.t.Helper()
	if !r.pause(after) {
		r.fatalf("the test was ended")
	}
	features := r.features()
	r.server.Kill(r.t)
	r.where += fmt.Sprintf(", killed after %s", after.Round(time.Millisecond))
	r.start(r.flags)
	return r.tally.add(features)
}
