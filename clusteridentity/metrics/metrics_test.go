// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	basemetrics "k8s.io/component-base/metrics"

	"github.com/kube-annex/annex/clusteridentity"
	"github.com/kube-annex/annex/clusteridentity/metrics"
)

// cluster is an identity that a test changes.
type cluster struct {
	atomic.Pointer[clusteridentity.Identity]
}

func (c *cluster) set(id, set string) {
	c.Store(&clusteridentity.Identity{Known: true, ID: id, ClusterSet: set})
}

func (c *cluster) current() clusteridentity.Identity {
	if identity := c.Load(); identity != nil {
		return *identity
	}
	return clusteridentity.Identity{}
}

// scrape returns the sorted lines of series that a program with the gatherer serves.
func scrape(t *testing.T, gatherer prometheus.Gatherer) []string {
	t.Helper()
	server := httptest.NewServer(promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%d %s (%v)", response.StatusCode, body, err)
	}
	var lines []string
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return lines
}

func TestSeriesSayWhichCluster(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	registry := prometheus.NewRegistry()
	done := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "done_total"}, []string{"zone"})
	elsewhere := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "elsewhere"}, []string{"cluster_id"})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "took", Buckets: []float64{1}})
	registry.MustRegister(done, elsewhere, took, metrics.NewCollector(c.current))
	done.WithLabelValues("a").Inc()
	elsewhere.WithLabelValues("another").Set(2)
	took.Observe(0.5)
	gatherer := metrics.NewGatherer(registry, c.current)

	plain := []string{
		`done_total{zone="a"} 1`, `elsewhere{cluster_id="another"} 2`, `took_bucket{le="+Inf"} 1`, `took_bucket{le="1"} 1`, `took_count 1`, `took_sum 0.5`,
	}
	if diff := cmp.Diff(plain, scrape(t, gatherer)); diff != "" {
		t.Errorf("before the identity is known (-want,+got):\n%s", diff)
	}
	c.set("", "")
	if diff := cmp.Diff(append([]string{`annex_cluster_info{clusterset="",id=""} 1`}, plain...), scrape(t, gatherer)); diff != "" {
		t.Errorf("without an id (-want,+got):\n%s", diff)
	}
	c.set("1", "fleet.example")
	done.WithLabelValues("a").Inc()
	if diff := cmp.Diff([]string{
		`annex_cluster_info{cluster_id="1",clusterset="fleet.example",id="1"} 1`, `done_total{cluster_id="1",clusterset="fleet.example",zone="a"} 2`,
		`elsewhere{cluster_id="another",clusterset="fleet.example"} 2`,
		`took_bucket{cluster_id="1",clusterset="fleet.example",le="+Inf"} 1`, `took_bucket{cluster_id="1",clusterset="fleet.example",le="1"} 1`,
		`took_count{cluster_id="1",clusterset="fleet.example"} 1`, `took_sum{cluster_id="1",clusterset="fleet.example"} 0.5`,
	}, scrape(t, gatherer)); diff != "" {
		t.Errorf("in a set (-want,+got):\n%s", diff)
	}
	c.set("2", "")
	if got := scrape(t, gatherer)[:2]; got[0] != `annex_cluster_info{cluster_id="2",clusterset="",id="2"} 1` || got[1] != `done_total{cluster_id="2",zone="a"} 2` {
		t.Errorf("after the id has changed: %q", got)
	}
}

func TestRegistriesOfComponentBase(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	c.set("1", "fleet")
	registry := basemetrics.NewKubeRegistry()
	if err := registry.Registerer().Register(metrics.NewCollector(c.current)); err != nil {
		t.Fatal(err)
	}
	counter := basemetrics.NewCounter(&basemetrics.CounterOpts{Name: "done_total", StabilityLevel: basemetrics.ALPHA})
	if err := registry.Register(counter); err != nil {
		t.Fatal(err)
	}
	want := []string{`annex_cluster_info{cluster_id="1",clusterset="fleet",id="1"} 1`, `done_total{cluster_id="1",clusterset="fleet"} 0`}
	if diff := cmp.Diff(want, scrape(t, metrics.NewGatherer(registry, c.current))); diff != "" {
		t.Errorf("series (-want,+got):\n%s", diff)
	}
}

// TestNothingOfOthersIsChanged gathers from one who always returns the same, and all kinds of values.
func TestNothingOfOthersIsChanged(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	c.set("1", "fleet")
	labels := make([]*dto.LabelPair, 1, 10)
	labels[0] = &dto.LabelPair{Name: proto.String("zone"), Value: proto.String("a")}
	series := func(edit func(*dto.Metric)) *dto.Metric {
		m := &dto.Metric{Label: labels, TimestampMs: proto.Int64(7)}
		edit(m)
		return m
	}
	families := []*dto.MetricFamily{{
		Name: proto.String("mixed"), Help: proto.String("help"), Unit: proto.String("seconds"), Type: dto.MetricType_UNTYPED.Enum(),
		Metric: []*dto.Metric{
			series(func(m *dto.Metric) {
				m.Counter = &dto.Counter{Value: proto.Float64(1), Exemplar: &dto.Exemplar{Value: proto.Float64(2)}}
			}),
			series(func(m *dto.Metric) { m.Gauge = &dto.Gauge{Value: proto.Float64(3)} }),
			series(func(m *dto.Metric) { m.Untyped = &dto.Untyped{Value: proto.Float64(4)} }),
			series(func(m *dto.Metric) { m.Summary = &dto.Summary{SampleCount: proto.Uint64(5)} }),
			series(func(m *dto.Metric) { m.Histogram = &dto.Histogram{SampleCount: proto.Uint64(6)} }),
		},
	}}
	trouble := errors.New("one collector has failed")
	gatherer := metrics.NewGatherer(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, trouble }), c.current)
	before := proto.Clone(families[0])
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			got, err := gatherer.Gather()
			if !errors.Is(err, trouble) || len(got) != 1 || len(got[0].GetMetric()) != 5 {
				t.Errorf("gathered %v, %v", got, err)
				return
			}
			for i, m := range got[0].GetMetric() {
				if len(m.GetLabel()) != 3 {
					t.Errorf("labels of series %d are %v", i, m.GetLabel())
				}
				m.Label = labels
			}
			if diff := cmp.Diff(before, proto.Message(got[0]), protocmp.Transform()); diff != "" {
				t.Errorf("apart from the labels (-want,+got):\n%s", diff)
			}
		})
	}
	work.Wait()
	if diff := cmp.Diff(before, proto.Message(families[0]), protocmp.Transform()); diff != "" {
		t.Errorf("what was gathered has changed (-before,+after):\n%s", diff)
	}
	if extra := labels[:2][1]; extra != nil {
		t.Errorf("%v was written behind labels of others", extra)
	}
}
