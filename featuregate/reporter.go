// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	basegate "k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	featuresclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/features/v1alpha1"
)

const (
	// firstReport is how soon, at most, a use is reported that is new to this process. A program checks many features as it starts,
	// and one report has them all.
	firstReport = 2 * time.Second
	// laterReport is within what time a use is reported again that a Feature no longer lists, and changeReport one that is new because
	// a Feature changed: the other processes of the component miss it as well, and one of them is enough.
	laterReport, changeReport = time.Minute, 10 * time.Second

	firstRetry, lastRetry = time.Second, 2 * time.Minute
)

// AnswerWindow is how long before status.useEvaluationTime a question must be asked so that the answers of this many running gates
// are at most 200 a second.
func AnswerWindow(gates int) time.Duration {
	return max(time.Minute, time.Duration(gates)*time.Second/200)
}

// maxReported is the number of features in one report, well below what the server takes.
const maxReported = 256

// reporter sends reports: of uses that are missing, and as a sign of life.
type reporter struct {
	gate    *Gate
	view    *view
	reports featuresclient.FeatureReportInterface
	// tried is set with the first attempt to send a report.
	tried bool
	// ahead is how much the server's clock is ahead of ours, to a second.
	ahead time.Duration

	// reported is what was reported of each gate, or seen to be listed, and what was known of its Feature then: if that is no longer
	// the same, the Feature itself tells whether the use is listed.
	reported map[basegate.Feature]report
	// missing are the uses that the Features did not list when they were last compared, and reportAt when they are due.
	missing  map[basegate.Feature]featuresv1alpha1.Value
	reportAt time.Time
	// planned is the age of the view up to which questions have been answered, or are to be at answerAt.
	planned  int64
	answerAt time.Time
	// observed is what reports say.
	observed string
	renewAt  time.Time

	reporting, renewing attempts
}

type report struct {
	value   featuresv1alpha1.Value
	feature *listed
}

// attempts spaces out what does not work.
type attempts struct {
	trouble
	next  time.Time
	delay time.Duration
}

func (a *attempts) note(ctx context.Context, now time.Time, err error) {
	a.trouble.note(ctx, err)
	if err == nil {
		a.next, a.delay = time.Time{}, 0
		return
	}
	a.delay = min(max(firstRetry, 2*a.delay), lastRetry)
	a.next = now.Add(a.delay/2 + upTo(a.delay/2))
}

func newReporter(gate *Gate, known *view, client Client, logger klog.Logger) *reporter {
	namespace := gate.options.Namespace
	r := &reporter{
		gate: gate, view: known, reports: client.Features.FeatureReports(namespace),
		reported: map[basegate.Feature]report{}, missing: map[basegate.Feature]featuresv1alpha1.Value{},
		planned: -1,
	}
	r.reporting.trouble = trouble{logger: logger, what: "Cannot report the features in use; trying again"}
	r.renewing.trouble = trouble{logger: logger, what: "Cannot report that this process is running; trying again"}
	return r
}

func (r *reporter) run(ctx context.Context) {
	clock := r.gate.options.Clock
	for ctx.Err() == nil {
		timer := clock.NewTimer(max(0, r.step(ctx).Sub(clock.Now())))
		select {
		case <-ctx.Done():
		case <-r.view.changed:
		case <-r.gate.uses.changed:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// step does what is due and returns when the next thing is.
func (r *reporter) step(ctx context.Context) time.Time {
	now := r.gate.options.Clock.Now()
	if r.renewAt.IsZero() {
		// Before anything is known: that this process exists must be known to whoever waits for all.
		r.renew(ctx, now)
	}
	known := r.view.snapshot()
	if known.filled {
		r.compare(known, now)
		r.ask(known, now)
		if due(r.reportAt, now) || due(r.answerAt, now) || due(r.renewAt, now) {
			r.answer(ctx, known, now)
		}
	}
	if due(r.renewAt, now) {
		r.renew(ctx, now)
	}
	next := sooner(later(r.renewAt, r.renewing.next), later(r.reportAt, r.reporting.next))
	if known.settled {
		// If it is not, the view signals when it is.
		next = sooner(next, later(r.answerAt, r.reporting.next, r.renewing.next))
	}
	return next
}

// compare finds out which uses are missing in the Features, and when they are to be reported.
func (r *reporter) compare(known snapshot, now time.Time) {
	missing := map[basegate.Feature]featuresv1alpha1.Value{}
	for _, u := range r.gate.uses.all() {
		if u.seen.load() == unknown || !reportable(u.name) {
			continue
		}
		value := featuresv1alpha1.ValueDisabled
		present := r.gate.peek(u.name)
		if present {
			value = featuresv1alpha1.ValueEnabled
		}
		u.seen.store(verdictOf(present))
		feature := known.features[u.name]
		if feature != nil && feature.uses[value] {
			r.reported[u.name] = report{value, feature}
			continue
		}
		before, ok := r.reported[u.name]
		if ok && before == (report{value, feature}) {
			continue
		}
		missing[u.name] = value
		if r.missing[u.name] == value {
			continue
		}
		at := now.Add(firstReport/2 + upTo(firstReport/2))
		switch {
		case feature != nil && !feature.evaluation.IsZero():
			at = now.Add(among(r.left(feature, now)))
		case ok && before.value == value:
			at = now.Add(among(laterReport))
		case ok && u.api != nil:
			at = now.Add(among(changeReport))
		}
		r.reportAt = sooner(r.reportAt, at)
	}
	if r.missing = missing; len(missing) == 0 {
		r.reportAt = time.Time{}
	}
}

// ask finds questions that are not answered yet, and plans when to answer. The first answer is due when the first report is.
func (r *reporter) ask(known snapshot, now time.Time) {
	if r.planned < 0 {
		r.answerAt = sooner(later(r.reportAt, now), now.Add(firstReport))
	}
	for _, feature := range known.features {
		if !feature.evaluation.IsZero() && feature.asked > r.planned {
			r.answerAt = sooner(r.answerAt, now.Add(upTo(r.left(feature, now))))
		}
	}
	r.planned = known.age
}

// left is how much of the time for answers is left, with some to spare, since clocks are known to a second only. Without an idea
// of the server's clock, because no report has arrived, the answer cannot be given either.
func (r *reporter) left(feature *listed, now time.Time) time.Duration {
	left := feature.evaluation.Sub(now.Add(r.ahead))
	return min(max(0, left*9/10-time.Second), 2*RenewInterval)
}

// answer reports what is missing. If it is answers or the renewal that is due, it then reports what was observed.
func (r *reporter) answer(ctx context.Context, known snapshot, now time.Time) {
	if len(r.missing) > 0 {
		if now.Before(r.reporting.next) {
			return
		}
		err := r.report(ctx)
		r.reporting.note(ctx, r.gate.options.Clock.Now(), err)
		if err != nil {
			return
		}
		for name, value := range r.missing {
			r.reported[name] = report{value, known.features[name]}
		}
		r.missing, r.reportAt = map[basegate.Feature]featuresv1alpha1.Value{}, time.Time{}
	}
	if !due(r.answerAt, now) && !due(r.renewAt, now) || !known.settled || now.Before(r.renewing.next) {
		return
	}
	// What changed during the report is for the next time.
	r.observed = known.version
	if r.renew(ctx, now) {
		r.answerAt = time.Time{}
	}
}

// renew reports that the process is running, and what it has observed, unless the last attempt failed just now.
func (r *reporter) renew(ctx context.Context, now time.Time) bool {
	if now.Before(r.renewing.next) {
		return false
	}
	err := r.send(ctx, nil, false)
	now = r.gate.options.Clock.Now()
	r.renewing.note(ctx, now, err)
	if err != nil {
		r.renewAt = now
		return false
	}
	r.renewAt = now.Add(RenewInterval*9/10 + upTo(RenewInterval/5))
	return true
}

// report reports all that is missing.
func (r *reporter) report(ctx context.Context) error {
	var missing []featuresv1alpha1.ReportedFeature
	specs := r.gate.GetAll()
	for name, value := range r.missing {
		feature := featuresv1alpha1.ReportedFeature{
			Name: string(name), Value: value, Default: featuresv1alpha1.ValueDisabled, Stability: featuresv1alpha1.StabilityPreAlpha,
		}
		if spec, ok := specs[name]; ok {
			feature.Stability = StabilityOf(spec)
			if spec.Default {
				feature.Default = featuresv1alpha1.ValueEnabled
			}
		}
		missing = append(missing, feature)
	}
	for part := range slices.Chunk(missing, maxReported) {
		if err := r.send(ctx, part, false); err != nil {
			return err
		}
	}
	return nil
}

// send sends one report. The answer has the server's clock.
func (r *reporter) send(ctx context.Context, features []featuresv1alpha1.ReportedFeature, stopping bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	options := &r.gate.options
	r.tried = true
	answer, err := r.reports.Create(ctx, &featuresv1alpha1.FeatureReport{Spec: featuresv1alpha1.FeatureReportSpec{
		Component: options.Component, Version: options.Version, Instance: options.Instance,
		Features: append([]featuresv1alpha1.ReportedFeature{}, features...), Observed: r.observed, Stopping: stopping,
	}}, metav1.CreateOptions{})
	if err == nil && !answer.CreationTimestamp.IsZero() {
		r.ahead = answer.CreationTimestamp.Sub(options.Clock.Now())
	}
	return err
}

// stop reports that the process ends, so that nobody waits for its answers.
func (r *reporter) stop(ctx context.Context) {
	if !r.tried {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout/3)
	defer cancel()
	if err := r.send(ctx, nil, true); err != nil {
		r.renewing.logger.Info("Could not report that this process ends; its answers are awaited until it counts as dead", "after", LeaseDuration, "reason", err.Error())
	}
}

// StabilityOf returns how mature a gate is, in the words of the API.
func StabilityOf(spec basegate.FeatureSpec) featuresv1alpha1.Stability {
	switch spec.PreRelease {
	case basegate.Alpha:
		return featuresv1alpha1.StabilityAlpha
	case basegate.Beta:
		return featuresv1alpha1.StabilityBeta
	case basegate.GA:
		return featuresv1alpha1.StabilityGA
	case basegate.Deprecated:
		return featuresv1alpha1.StabilityDeprecated
	}
	return featuresv1alpha1.StabilityPreAlpha
}

// due tells whether the time has come; the zero time never comes.
func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// sooner returns the first of two times; the zero time never comes.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later returns the last of the times, unless the first never comes.
func later(at time.Time, others ...time.Time) time.Time {
	for _, other := range others {
		if !at.IsZero() && other.After(at) {
			at = other
		}
	}
	return at
}

// among returns a random duration below d for something that one of many has to do: a short one seldom, so that when the first has
// done it, few have begun before they could know.
func among(d time.Duration) time.Duration {
	return time.Duration(math.Sqrt(rand.Float64()) * float64(d))
}

// upTo returns a random duration below d.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
