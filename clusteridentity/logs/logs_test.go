// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package logs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/slogtest"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/kube-annex/annex/clusteridentity"
	"github.com/kube-annex/annex/clusteridentity/logs"
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

func TestSlogHandlerIsAHandler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*cluster{"not known": {}, "a member": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "a member" {
				c.set("1", "fleet")
			}
			var output bytes.Buffer
			slogtest.Run(t, func(*testing.T) slog.Handler {
				output.Reset()
				return logs.NewHandler(slog.NewJSONHandler(&output, nil), c.current)
			}, func(t *testing.T) map[string]any { return decode(t, &output) })
		})
	}
}

func decode(t *testing.T, output *bytes.Buffer) map[string]any {
	t.Helper()
	record := map[string]any{}
	if err := json.Unmarshal(output.Bytes(), &record); err != nil {
		t.Fatalf("%v in %s", err, output)
	}
	return record
}

func TestSlogRecordsSayWhichCluster(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	var output bytes.Buffer
	logger := slog.New(logs.NewHandler(slog.NewJSONHandler(&output, nil), c.current)).With("a", 1).WithGroup("g").With("b", 2)
	group := map[string]any{"b": 2.0, "c": 3.0}
	for _, tc := range []struct {
		id, set string
		want    map[string]any
	}{
		{"", "", map[string]any{"a": 1.0, "g": group}},
		{"1", "", map[string]any{"a": 1.0, "g": group, "clusterID": "1"}},
		{"1", "fleet", map[string]any{"a": 1.0, "g": group, "clusterID": "1", "clusterSet": "fleet"}},
		{"2", "", map[string]any{"a": 1.0, "g": group, "clusterID": "2"}},
	} {
		c.set(tc.id, tc.set)
		for range 2 {
			output.Reset()
			logger.Info("hello", "c", 3)
			got := decode(t, &output)
			delete(got, "time")
			delete(got, "level")
			delete(got, "msg")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s in %s (-want,+got):\n%s", tc.id, tc.set, diff)
			}
		}
	}
	output.Reset()
	if logger.Debug("hidden"); output.Len() > 0 {
		t.Errorf("a level that is not enabled was logged: %s", &output)
	}
}

// TestLogrLinesSayWhichCluster logs as programs with klog and contextual logging do.
func TestLogrLinesSayWhichCluster(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	var output bytes.Buffer
	config := textlogger.NewConfig(textlogger.Output(&output), textlogger.Verbosity(2))
	ctx := klog.NewContext(t.Context(), logs.WithIdentity(textlogger.NewLogger(config), c.current))
	logger := klog.FromContext(ctx).WithName("part").WithValues("a", 1)
	helped := func() {
		helper, deeper := logger.WithCallStackHelper()
		helper()
		deeper.Info("hello")
	}
	for id, want := range map[string]string{"": `"hello" logger="part" a=1`, "1": `"hello" logger="part" a=1 clusterID="1" clusterSet="fleet"`} {
		c.set(id, strings.Repeat("fleet", len(id)))
		for name, log := range map[string]func(){
			"info":          func() { logger.Info("hello") },
			"verbose":       func() { logger.V(2).Info("hello") },
			"error":         func() { logger.Error(errors.New("bad"), "hello") },
			"by a function": helped,
		} {
			output.Reset()
			log()
			said := strings.Replace(output.String(), ` err="bad"`, "", 1)
			if !strings.Contains(said, want+"\n") || strings.Contains(said, "cluster") != (id != "") {
				t.Errorf("%s: the line is %q, want %q", name, said, want)
			}
			// Lines name the place from which they were logged.
			if !strings.Contains(said, "logs_test.go:") {
				t.Errorf("%s: the line is said to be from elsewhere: %q", name, said)
			}
		}
		output.Reset()
		if logger.V(3).Info("hidden"); output.Len() > 0 {
			t.Errorf("a level that is not enabled was logged: %s", &output)
		}
	}
}

// TestKlog logs through klog's own functions. What they use is the process's, so no other test may run beside it.
func TestKlog(t *testing.T) {
	c := &cluster{}
	c.set("1", "fleet")
	var output bytes.Buffer
	klog.SetLogger(logs.WithIdentity(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&output))), c.current))
	defer klog.ClearLogger()
	// Without a logger in the context these are klog's own functions.
	klog.FromContext(t.Context()).Info("hello", "a", 1)
	want := `"hello" clusterID="1" clusterSet="fleet" a=1`
	if said := output.String(); !strings.Contains(said, want) || !strings.Contains(said, "logs_test.go:") {
		t.Errorf("the line is %q, want %q from here", said, want)
	}
}

func TestSinksThatCanDoLittle(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	c.set("1", "")
	if got := logs.WithIdentity(logr.Discard(), c.current); got.GetSink() != nil {
		t.Error("a logger that discards everything was given something to do")
	}
	s := &plain{lines: new([]string)}
	logger := logs.WithIdentity(logr.New(s), c.current)
	helper, logger := logger.WithCallDepth(1).WithCallStackHelper()
	helper()
	logger.Info("hello", "a", 1)
	if diff := cmp.Diff([]string{`hello ["clusterID","1","a",1]`}, *s.lines); diff != "" {
		t.Errorf("lines (-want,+got):\n%s", diff)
	}
}

// plain is a sink without anything optional.
type plain struct{ lines *[]string }

func (s *plain) Init(logr.RuntimeInfo)          {}
func (s *plain) Enabled(int) bool               { return true }
func (s *plain) Error(error, string, ...any)    {}
func (s *plain) WithValues(...any) logr.LogSink { return s }
func (s *plain) WithName(string) logr.LogSink   { return s }
func (s *plain) Info(_ int, m string, kvs ...any) {
	values, _ := json.Marshal(kvs)
	*s.lines = append(*s.lines, m+" "+string(values))
}

func BenchmarkSlog(b *testing.B) {
	c := &cluster{}
	c.set("1", "fleet")
	for name, handler := range map[string]slog.Handler{
		"plain": slog.NewJSONHandler(io.Discard, nil), "with identity": logs.NewHandler(slog.NewJSONHandler(io.Discard, nil), c.current),
	} {
		b.Run(name, func(b *testing.B) {
			logger := slog.New(handler)
			b.ReportAllocs()
			for b.Loop() {
				logger.Info("hello", "a", 1)
			}
		})
	}
}
