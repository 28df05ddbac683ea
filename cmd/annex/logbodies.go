// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/go-logr/logr"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// keepBodiesOut replaces the process's logger by one that leaves out what requests and answers carry. From -v=8 on the clients that are in
// this process, those of controllers, of reviews and of webhooks, log all they send and get, and that is Secrets and tokens, too.
func keepBodiesOut() {
	logger := klog.Background()
	sink := logger.GetSink()
	options := []klog.LoggerOption{klog.ContextualLogger(true)}
	unstructured := klog.WriteKlogBuffer // by name, since the linter takes a call for a line of the log
	if writer, ok := sink.(textlogger.KlogBufferWriter); ok {
		options = append(options, unstructured(writer.WriteKlogBuffer))
	}
	klog.SetLoggerWithOptions(logger.WithSink(newWithoutBodies(sink)), options...)
}

// withoutBodies leaves the bodies of requests and answers out of what the sink writes.
type withoutBodies struct{ sink logr.LogSink }

func newWithoutBodies(sink logr.LogSink) logr.LogSink {
	if deeper, ok := sink.(logr.CallDepthLogSink); ok {
		sink = deeper.WithCallDepth(1) // for the methods here
	}
	return withoutBodies{sink}
}

// Init implements logr.LogSink. The sink has been told already.
func (withoutBodies) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (w withoutBodies) Enabled(level int) bool { return w.sink.Enabled(level) }

// Info implements logr.LogSink.
func (w withoutBodies) Info(level int, message string, values ...any) {
	if message == "Request Body" || message == "Response Body" { // so client-go calls them
		values = []any{"body", "left out"}
	}
	w.sink.Info(level, message, values...)
}

// Error implements logr.LogSink.
func (w withoutBodies) Error(err error, message string, values ...any) {
	w.sink.Error(err, message, values...)
}

// WithValues implements logr.LogSink.
func (w withoutBodies) WithValues(values ...any) logr.LogSink {
	return withoutBodies{w.sink.WithValues(values...)}
}

// WithName implements logr.LogSink.
func (w withoutBodies) WithName(name string) logr.LogSink {
	return withoutBodies{w.sink.WithName(name)}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (w withoutBodies) WithCallDepth(depth int) logr.LogSink {
	if deeper, ok := w.sink.(logr.CallDepthLogSink); ok {
		return withoutBodies{deeper.WithCallDepth(depth)}
	}
	return w
}
