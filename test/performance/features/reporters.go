// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	reportersNamespace = "reporters"
	// setUp is how long what comes before a measurement may take.
	setUp = 10 * time.Minute
	// toldAfter is when all reporters have been told of a question, and of what the first of them have reported.
	toldAfter = 8 * time.Second
)

// reporters measures what many reporters cost, and how long they take to answer.
func reporters(ctx context.Context, s settings, results *table) (err error) {
	a, err := startAnnex(ctx, s, "reporters")
	if err != nil {
		return err
	}
	defer a.stop()
	r, err := newReporters(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err = r.announce(ctx); err != nil {
		return err
	}
	before, err := r.features.count(ctx)
	if err != nil {
		return err
	}
	results.add(fmt.Sprintf("writes of Features as a server announces %d of them", numberOfFeatures), "", "%d", before)

	stopServer := r.serve(ctx, s.window)
	defer func() { err = errors.Join(err, stopServer()) }()
	began := time.Now()
	progress("starting %d reporters", s.reporters)
	child, err := startReporters(s, a, reportersNamespace)
	if err != nil {
		return err
	}
	defer child.Kill()
	if err = r.waitForReporters(ctx, s.reporters); err != nil {
		return fmt.Errorf("%w; the end of their log:\n%s", err, child.Tail(10))
	}
	results.add(fmt.Sprintf("%d reporters of %d features, %d versions of components, all started and known after", s.reporters, numberOfFeatures, kindsOfReporters),
		"", "%.0f s", time.Since(began).Seconds())
	// The last of them may still report.
	if err = pause(ctx, 5*time.Second); err != nil {
		return err
	}
	after, err := r.features.count(ctx)
	if err != nil {
		return err
	}
	results.add("writes of Features as they start", "a few hundred", "%d, for %d reports", after-before, reportsOf(child))
	if err = r.memory(results, a, child.Pid()); err != nil {
		return err
	}
	return r.measure(ctx, s, child, results)
}

// measure leaves the reporters alone, and then asks them questions, beside users.
func (r *reportersRun) measure(ctx context.Context, s settings, child *cluster.Process, results *table) (err error) {
	u, err := startUsers(ctx, r.annex.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.close()) }()
	if err = pause(ctx, 5*time.Second); err != nil {
		return err
	}
	began := time.Now()
	features, leases, err := r.written(ctx, func() error { return pause(ctx, s.settled) })
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	results.add(fmt.Sprintf("writes of Features in %.0f s when settled", took), "under 5/s", "%d", features)
	results.add("renewals of Leases in that time", fmt.Sprintf("%.1f/s", float64(s.reporters)/featuregate.RenewInterval.Seconds()), "%.1f/s", float64(leases)/took)
	results.add("users then, "+columns, "", "%s", u.between(began, time.Now()))

	quiet, err := s.quietly(ctx, u)
	if err != nil {
		return err
	}
	var compared, steady ratios
	for i := range s.questions {
		value := []v1alpha1.Value{v1alpha1.ValueDisabled, v1alpha1.ValueEnabled}[i%2]
		var from, to time.Time
		reports := reportsOf(child)
		features, _, err := r.written(ctx, func() (err error) {
			from, to, err = r.ask(ctx, s, value, results)
			return err
		})
		if err != nil {
			return err
		}
		during := u.between(from, to)
		after, err := s.quietly(ctx, u)
		if err != nil {
			return err
		}
		results.add("writes of Features with it", "", "%d, for %d reports", features, reportsOf(child)-reports)
		results.add("users meanwhile, "+columns, "", "%s", during)
		results.add("users in the minutes before and after", "", "%s and %s", quiet, after)
		compared.add(during, quiet, after)
		steady.add(u.between(from.Add(toldAfter), to.Add(-time.Second)), quiet, after)
		quiet = after
	}
	results.add("users while all answer, to before and after: median ratios of p50 / p95 / p99", "p99 ≤ 1.2", "%s", &compared)
	results.add(fmt.Sprintf("the same without the first %s, in which each of them is told of some changes of the Feature", toldAfter), "", "%s", &steady)
	return nil
}

// ask turns the feature to the value and waits until that is done. It returns when users may have been disturbed.
func (r *reportersRun) ask(ctx context.Context, s settings, value v1alpha1.Value, results *table) (from, to time.Time, err error) {
	from = time.Now()
	name := string(featureName(0))
	patch := fmt.Appendf(nil, `{"spec":{"desired":%q}}`, value)
	if _, err = r.annex.features.FeaturesV1alpha1().Features(reportersNamespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return from, to, err
	}
	asked, err := r.wait(ctx, name, func(f *v1alpha1.Feature) bool { return f.Status.UseEvaluationTime != nil })
	if err != nil {
		return from, to, err
	}
	question, err := strconv.ParseInt(asked.ResourceVersion, 10, 64)
	if err != nil {
		return from, to, err
	}
	r.reader.ask(question)
	window := s.window
	if window == 0 {
		window = featuregate.AnswerWindow(s.reporters)
	}
	progress("asked all about %s, which is %s; answers are read at %s", name, asked.Status.State, asked.Status.UseEvaluationTime.Time)
	last := asked
	done, err := r.wait(ctx, name, func(f *v1alpha1.Feature) bool {
		if len(f.Status.Tasks) > 0 && f.Status.Tasks[0].Message != last.Status.Tasks[0].Message {
			progress("%s", f.Status.Tasks[0].Message)
			last = f
		}
		return len(f.Status.Tasks) == 0
	})
	if err != nil {
		return from, to, err
	}
	to = time.Now()
	answers := r.reader.answers()
	if len(answers) < s.reporters {
		return from, to, fmt.Errorf("%d of %d reporters had answered when the engine was content", len(answers), s.reporters)
	}
	slices.SortFunc(answers, time.Time.Compare)
	perSecond := map[int64]int{}
	most := 0
	for _, at := range answers {
		perSecond[at.Unix()]++
		most = max(most, perSecond[at.Unix()])
	}
	results.add(fmt.Sprintf("question to all, %s: last answer after", done.Status.State), fmt.Sprintf("≤ %s", window), "%.1f s; at most %d in a second", answers[len(answers)-1].Sub(from).Seconds(), most)
	results.add("from spec.desired to the end of WaitForUses", "", "%.1f s", to.Sub(from).Seconds())
	return from, to, nil
}

// reportersRun is a server with an engine of its own for its Features.
type reportersRun struct {
	annex            *annex
	reader           *reader
	features, leases *history
}

func newReporters(ctx context.Context, a *annex) (*reportersRun, error) {
	if err := a.makeNamespace(ctx, reportersNamespace); err != nil {
		return nil, err
	}
	known, err := newReader()
	if err != nil {
		return nil, err
	}
	r := &reportersRun{annex: a, reader: known}
	if r.features, err = follow(ctx, a.socket(), featuresPrefix+reportersNamespace+"/", known.seeFeature); err != nil {
		return nil, err
	}
	if r.leases, err = follow(ctx, a.socket(), leasesPrefix+featuregate.LeaseNamespace+"/"+featuregate.LeasePrefix, known.seeLease); err != nil {
		return nil, errors.Join(err, r.features.close())
	}
	return r, nil
}

// written counts the writes of Features and of Leases while something is done.
func (r *reportersRun) written(ctx context.Context, do func() error) (features, leases int, err error) {
	var before, after [2]int
	for _, counts := range []*[2]int{&before, &after} {
		for i, h := range []*history{r.features, r.leases} {
			if counts[i], err = h.count(ctx); err != nil {
				return 0, 0, err
			}
		}
		if counts == &before {
			if err = do(); err != nil {
				return 0, 0, err
			}
		}
	}
	return after[0] - before[0], after[1] - before[1], nil
}

func (r *reportersRun) close() error {
	_, reading := r.reader.present()
	return errors.Join(r.features.close(), r.leases.close(), reading)
}

// announce has the server announce all features, and waits until they are on.
func (r *reportersRun) announce(ctx context.Context) error {
	stop := r.serve(ctx, time.Second)
	for i := range numberOfFeatures {
		_, err := r.wait(ctx, string(featureName(i)), func(f *v1alpha1.Feature) bool { return f.Status.State == v1alpha1.StateOn })
		if err != nil {
			return errors.Join(err, stop())
		}
	}
	return stop()
}

// serve runs the engine of a server that has all features, the first of them dynamic. A window of zero is that of the library.
func (r *reportersRun) serve(ctx context.Context, window time.Duration) (stop func() error) {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	done := make(chan error, 1)
	go func() {
		options := lifecycle.Options{
			Component: "server", Instance: "one", Version: "v1.0.0", Namespace: reportersNamespace,
			Client: r.annex.features, Leases: r.annex.kubernetes.CoordinationV1(),
			Timings: lifecycle.Timings{AnswerWindow: window, WriteGrace: -1},
		}
		if window > 0 {
			options.Timings.RenewInterval = time.Second // for so long after its start it turns nothing round
		}
		for i := range numberOfFeatures {
			options.Features = append(options.Features, lifecycle.Feature{
				Name: string(featureName(i)), Default: v1alpha1.ValueEnabled, Configured: v1alpha1.ValueEnabled, Stability: v1alpha1.StabilityBeta, Dynamic: i == 0,
			})
		}
		engine, err := lifecycle.New(options)
		if err == nil {
			err = engine.Run(ctx)
		}
		done <- err
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// wait returns a Feature as soon as it is stored as wanted.
func (r *reportersRun) wait(ctx context.Context, name string, wanted func(*v1alpha1.Feature) bool) (*v1alpha1.Feature, error) {
	deadline := time.After(setUp)
	for {
		r.reader.mu.Lock()
		feature, changed, err := r.reader.features[name], r.reader.changed, r.reader.err
		r.reader.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if feature != nil && wanted(feature) {
			return feature, nil
		}
		select {
		case <-changed:
		case <-deadline:
			return nil, fmt.Errorf("the Feature %s is not as it should be after %s: %+v", name, setUp, feature)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *reportersRun) waitForReporters(ctx context.Context, count int) error {
	return poll.Until(ctx, setUp, func(context.Context) error {
		present, err := r.reader.present()
		if err != nil {
			return poll.Permanent(err)
		}
		return poll.Want(present >= count, fmt.Sprintf("%d of %d reporters have reported", present, count))
	})
}

func (r *reportersRun) memory(results *table, a *annex, child int) error {
	theirs, err := resident(child)
	if err != nil {
		return err
	}
	ours, err := resident(a.process.Pid())
	results.add("memory (RSS) of annex with their watches, and of all reporters", "", "%.0f MiB and %.0f MiB", ours, theirs)
	return err
}
