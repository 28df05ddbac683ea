// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
)

func testQuestion(t *testing.T, w *world) {
	const window = 12 * time.Second
	gates := map[string]time.Duration{"slow": -time.Hour, "fast": time.Hour}
	for i := range 8 {
		gates[fmt.Sprintf("right-%d", i)] = 0
	}
	for instance, skew := range gates {
		options := w.options(instance)
		options.Clock = skewed{by: skew}
		gate := w.gateWith(options)
		gate.Enabled("Alpha")
		w.run(gate, w.server.Config)
	}
	before := map[string]string{}
	for instance := range gates {
		before[instance] = w.leaseWith(instance, featuregate.AnnotationObserved).ResourceVersion
	}

	asked := w.set("Alpha", func(s *featuresv1alpha1.FeatureStatus) {
		s.Uses, s.UseEvaluationTime = nil, &metav1.Time{Time: time.Now().Add(window)}
	})
	var answers []time.Duration
	at := asked.Status.UseEvaluationTime.Add(-window)
	missing := map[string]bool{}
	for instance := range gates {
		missing[instance] = true
	}
	w.wait("answers", func() (bool, any) {
		for instance := range missing {
			if covers(t, w.lease(instance), asked.ResourceVersion) {
				delete(missing, instance)
				answers = append(answers, time.Since(at))
			}
		}
		return len(missing) == 0, missing
	})
	t.Logf("answers came after %v", answers)
	if last := answers[len(answers)-1]; last > window {
		t.Errorf("the last answer came after %s, want within %s", last, window)
	}
	if spread := answers[len(answers)-1] - answers[0]; spread < window/10 {
		t.Errorf("all answers came within %s of each other, want them spread over %s", spread, window)
	}
	// Who answers has reported first.
	w.waitForUse("Alpha", featuresv1alpha1.ValueDisabled)
	if uses := w.feature("Alpha").Status.Uses; len(uses) != 1 {
		t.Errorf("uses are %v", uses)
	}
}

func testNoAnswerBeforeTold(t *testing.T, w *world) {
	told, goOn := make(chan bool), make(chan struct{})
	gate := w.gate("one", featuregate.FromAPI("Alpha", func(ctx context.Context, enabled bool) {
		told <- enabled
		select {
		case <-goOn:
		case <-ctx.Done():
		}
	}))
	w.run(gate, w.server.Config)
	w.leaseWith("one", featuregate.AnnotationObserved)
	asked := w.set("Alpha", func(s *featuresv1alpha1.FeatureStatus) {
		s.State, s.UseEvaluationTime = featuresv1alpha1.StateOn, &metav1.Time{Time: time.Now().Add(-time.Hour)}
	})
	if enabled := <-told; !enabled || !gate.Enabled("Alpha") {
		t.Error("the gate did not follow")
	}
	// The use is reported, but what the program still does is not covered.
	w.waitForUse("Alpha", featuresv1alpha1.ValueEnabled)
	if lease := w.lease("one"); covers(t, lease, asked.ResourceVersion) {
		t.Errorf("the Lease says %s, which includes a change that the program is being told of", lease.Annotations[featuregate.AnnotationObserved])
	}
	close(goOn)
	w.wait("the answer", func() (bool, any) {
		lease := w.lease("one")
		return covers(t, lease, asked.ResourceVersion), lease
	})
}

// testFull has a Feature without room for the use. The gate's other uses are listed; but it cannot say that it has reported all.
func testFull(t *testing.T, w *world) {
	full := w.set("Alpha", func(s *featuresv1alpha1.FeatureStatus) {
		for i := range 64 {
			s.Uses = append(s.Uses, featuresv1alpha1.Use{Component: fmt.Sprintf("other-%d", i), Version: "v1", Value: featuresv1alpha1.ValueEnabled})
		}
	})
	config, count := w.counted()
	gate := w.gate("one")
	gate.Enabled("Alpha")
	gate.Enabled("Beta")
	w.run(gate, config)
	w.waitForUse("Beta", featuresv1alpha1.ValueEnabled)
	w.wait("another try", func() (bool, any) { n := count("POST featurereports"); return n >= 3, n })
	if lease := w.lease("one"); lease.Name == "" || covers(t, lease, full.ResourceVersion) {
		t.Errorf("want a Lease that has not observed the full Feature: %v", lease)
	}
	w.set("Alpha", func(s *featuresv1alpha1.FeatureStatus) { s.Uses = s.Uses[1:] })
	w.waitForUse("Alpha", featuresv1alpha1.ValueDisabled)
	w.leaseWith("one", featuregate.AnnotationObserved)
}

// testMany starts the processes of a large component at the same time, and asks them a question: the Features are written as
// seldom as for one.
func testMany(t *testing.T, w *world) {
	const many = 100
	changes, err := w.server.Annex.FeaturesV1alpha1().Features(w.namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan int, 1)
	go func() {
		count := 0
		for event := range changes.ResultChan() {
			if event.Type == watch.Added || event.Type == watch.Modified {
				count++
			}
		}
		written <- count
	}()
	config, count := w.counted()
	for i := range many {
		gate := w.gate(fmt.Sprintf("pod-%d", i))
		gate.Enabled("Alpha")
		gate.Enabled("Beta")
		gate.Enabled("Locked")
		w.run(gate, config)
	}
	for i := range many {
		w.leaseWith(fmt.Sprintf("pod-%d", i), featuregate.AnnotationObserved)
	}
	reports := count("POST featurereports")
	asked := w.set("Alpha", func(s *featuresv1alpha1.FeatureStatus) {
		s.Uses, s.UseEvaluationTime = nil, &metav1.Time{Time: time.Now().Add(20 * time.Second)}
	})
	for i := range many {
		w.wait("an answer", func() (bool, any) {
			lease := w.lease(fmt.Sprintf("pod-%d", i))
			return covers(t, lease, asked.ResourceVersion), lease
		})
	}
	if late := time.Until(asked.Status.UseEvaluationTime.Time); late < 0 {
		t.Errorf("the last answer was %s late", -late)
	}
	changes.Stop()
	// Each Feature is made and gets its use; one is asked about and gets it again.
	if got := <-written; got > 8 {
		t.Errorf("%d processes wrote Features %d times, want 8", many, got)
	}
	again := count("POST featurereports") - reports
	t.Logf("%d processes: %d reports as they began at once, %d after a question; %d signs of life", many, reports, again, count(signOfLife))
	if reports > many || again > many/4 {
		t.Errorf("%d reports as %d processes began and %d after a question, want at most one each, and few", reports, many, again)
	}
}

// testManyFollow turns a feature on that all processes of a component follow, at a server that is slow to take reports: most of them
// see that one of the others has reported before it is their turn.
func testManyFollow(t *testing.T, w *world) {
	const many, slow = 100, 2 * time.Second
	counted, count := w.counted()
	config := rest.CopyConfig(counted)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if strings.HasSuffix(request.URL.Path, "/featurereports") {
				select {
				case <-time.After(slow):
				case <-request.Context().Done():
					return nil, request.Context().Err()
				}
			}
			return next.RoundTrip(request)
		})
	})
	for i := range many {
		gate := w.gate(fmt.Sprintf("pod-%d", i), featuregate.FromAPI("Alpha"))
		gate.Enabled("Alpha")
		w.run(gate, config)
	}
	for i := range many {
		w.leaseWith(fmt.Sprintf("pod-%d", i), featuregate.AnnotationObserved)
	}
	before := count("POST featurereports")
	asked := w.set("Alpha", func(s *featuresv1alpha1.FeatureStatus) {
		s.State, s.Uses, s.UseEvaluationTime = featuresv1alpha1.StateOn, nil, &metav1.Time{Time: time.Now().Add(30 * time.Second)}
	})
	for i := range many {
		w.wait("an answer", func() (bool, any) {
			lease := w.lease(fmt.Sprintf("pod-%d", i))
			return covers(t, lease, asked.ResourceVersion), lease
		})
	}
	if late := time.Until(asked.Status.UseEvaluationTime.Time); late < 0 {
		t.Errorf("the last answer was %s late", -late)
	}
	w.waitForUse("Alpha", featuresv1alpha1.ValueEnabled)
	// Who answers while the first report is on its way has to report, too.
	if again := count("POST featurereports") - before; again > many/3 {
		t.Errorf("%d reports of %d processes that follow a feature, want few", again, many)
	}
}
