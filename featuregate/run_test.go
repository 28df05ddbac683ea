// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	basegate "k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
)

// TestWithoutAPI runs a gate that never reaches anything, twice, and leaves no goroutine behind.
func TestWithoutAPI(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	tried := make(chan struct{}, 100)
	config := &rest.Config{Host: "https://127.0.0.1:1", Dial: func(context.Context, string, string) (net.Conn, error) {
		signal(tried)
		return nil, errors.New("nobody is there")
	}}
	gate := reporting(t, usual(t), FromAPI("Alpha", func(context.Context, bool) { t.Error("the program was told of a change") }))
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- gate.Run(ctx, config) }()
		for range 3 {
			<-tried
		}
		if !gate.running.Load() {
			t.Error("Run has ended")
		}
		if err := gate.Run(ctx, config); err == nil {
			t.Error("a second Run began while the first still runs")
		}
		if gate.Enabled("Alpha") || !gate.Enabled("Beta") {
			t.Error("the gate is not what the command line says")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// TestChecksAtTheSameTime is for the race detector: checks, first checks, changes of Features and reports.
func TestChecksAtTheSameTime(t *testing.T) {
	t.Parallel()
	plain, names := manyGates(t)
	gate := reporting(t, plain, FromAPI(names[0]))
	known := newView(gate, klog.Logger{})
	r := newReporterOf(gate, known)
	var work sync.WaitGroup
	for offset := range 8 {
		work.Go(func() {
			for i := range 5 * len(names) {
				gate.Enabled(names[(i+31*offset)%len(names)])
			}
		})
	}
	for _, state := range []featuresv1alpha1.State{"On", "Off", "On", "Off"} {
		feature := featureIn(names[0], state)
		if err := known.Add(feature); err != nil {
			t.Fatal(err)
		}
		r.compare(known.snapshot(), time.Now())
	}
	work.Wait()
	if got := len(gate.uses.all()); got != len(names) {
		t.Errorf("%d uses, want %d", got, len(names))
	}
	if r.compare(known.snapshot(), time.Now()); len(r.missing) != len(names) {
		t.Errorf("%d uses to report, want %d", len(r.missing), len(names))
	}
}

// TestWhenThingsAreDue has a reporter's plans, without a server.
func TestWhenThingsAreDue(t *testing.T) {
	t.Parallel()
	now := time.Now()
	within := func(what string, at time.Time, from, to time.Duration) {
		t.Helper()
		if after := at.Sub(now); at.IsZero() || after < from || after > to {
			t.Errorf("%s is due after %s, want between %s and %s", what, after, from, to)
		}
	}
	gate := reporting(t, usual(t))
	known := newView(gate, klog.Logger{})
	r := newReporterOf(gate, known)
	gate.Enabled("Alpha")
	gate.Enabled("Beta")
	if err := known.Replace([]any{featureIn("Beta", "On", "Enabled")}, "5"); err != nil {
		t.Fatal(err)
	}
	r.compare(known.snapshot(), now)
	r.ask(known.snapshot(), now)
	if len(r.missing) != 1 || r.missing["Alpha"] != featuresv1alpha1.ValueDisabled {
		t.Errorf("missing are %v, want Alpha", r.missing)
	}
	within("the first report", r.reportAt, time.Second, 2*time.Second)
	within("the first answer", r.answerAt, time.Second, 2*time.Second)

	// Reported, but not yet seen at the Feature: there is nothing to do.
	r.reported["Alpha"], r.reportAt, r.answerAt, r.missing = report{"Disabled", nil}, time.Time{}, time.Time{}, nil
	r.reported["Beta"] = report{"Enabled", nil}
	r.compare(known.snapshot(), now)
	r.ask(known.snapshot(), now)
	if len(r.missing) > 0 || !r.reportAt.IsZero() || !r.answerAt.IsZero() {
		t.Errorf("something is planned after all was reported: %v, %s, %s", r.missing, r.reportAt, r.answerAt)
	}

	// A question that clears the uses is answered within nine tenths of its time by the server's clock, which is an hour ahead.
	r.ahead = time.Hour
	question := featureIn("Beta", "TurningOff")
	question.Status.UseEvaluationTime = timeAt(now.Add(time.Hour + 100*time.Second))
	if err := known.Update(question); err != nil {
		t.Fatal(err)
	}
	r.compare(known.snapshot(), now)
	r.ask(known.snapshot(), now)
	within("the report of a cleared use", r.reportAt, 0, 90*time.Second)
	within("the answer", r.answerAt, 0, 90*time.Second)

	// It is one question as long as its time is the same.
	r.answerAt = time.Time{}
	question = question.DeepCopy()
	question.Status.Uses = featureIn("Beta", "TurningOff", "Enabled").Status.Uses
	if err := known.Update(question); err != nil {
		t.Fatal(err)
	}
	r.compare(known.snapshot(), now)
	r.ask(known.snapshot(), now)
	if !r.answerAt.IsZero() || !r.reportAt.IsZero() || len(r.missing) > 0 {
		t.Errorf("somebody else has reported, but there is still a plan: %v, %s, %s", r.missing, r.reportAt, r.answerAt)
	}
	// An answer that is late is due at once, and one that is far off with the next renewal but one.
	for left, most := range map[time.Duration]time.Duration{-time.Minute: 0, 24 * time.Hour: 10 * time.Minute} {
		question = question.DeepCopy()
		question.Status.UseEvaluationTime = timeAt(now.Add(time.Hour + left))
		if err := known.Update(question); err != nil {
			t.Fatal(err)
		}
		r.answerAt = time.Time{}
		r.ask(known.snapshot(), now)
		within("the answer", r.answerAt, 0, most)
	}
}

func TestRetriesGrow(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var a attempts
	for i := range 12 {
		a.note(t.Context(), now, errors.New("no"))
		most := min(firstRetry<<i, lastRetry)
		if delay := a.next.Sub(now); delay < most/2 || delay > most {
			t.Errorf("attempt %d is followed by a pause of %s, want from %s to %s", i+1, delay, most/2, most)
		}
	}
	if a.note(t.Context(), now, nil); !a.next.IsZero() {
		t.Error("a pause is left after success")
	}
}

func newReporterOf(gate *Gate, known *view) *reporter {
	return &reporter{
		gate: gate, view: known, planned: -1, reported: map[basegate.Feature]report{},
	}
}

// TestFeaturesAreReadInTheShortForm looks at what is asked for: protobuf first, for whoever serves it, and nothing compressed.
func TestFeaturesAreReadInTheShortForm(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config rest.Config
		want   string
	}{
		"by default":           {want: "application/vnd.kubernetes.protobuf,application/json; compressed: "},
		"as the program wants": {config: rest.Config{ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, want: "application/json, */*; compressed: gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var accepts string
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				accepts = r.Header.Get("Accept") + "; compressed: " + r.Header.Get("Accept-Encoding")
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"apiVersion":"features.k8s.io/v1alpha1","kind":"Feature","metadata":{"name":"Alpha"}}`))
			}))
			defer server.Close()
			tc.config.Host, tc.config.Insecure = server.URL, true
			client, err := NewClient(&tc.config)
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.Features.Features("default").Get(t.Context(), "Alpha", metav1.GetOptions{})
			if err != nil || got.Name != "Alpha" {
				t.Errorf("a server that only has JSON: got %v, %v", got, err)
			}
			if accepts != tc.want {
				t.Errorf("accepts %q, want %q", accepts, tc.want)
			}
		})
	}
}
