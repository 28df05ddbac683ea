// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"github.com/go-logr/logr"

	"github.com/kube-annex/annex/clusteridentity"
)

// WithIdentity returns a logger that adds the identity to each line of logger. Pass it on with klog.NewContext, or to klog.SetLogger if
// it does not itself write through klog's own functions, as klog.Background does before SetLogger; that of klog's package textlogger
// does not.
func WithIdentity(logger logr.Logger, identity func() clusteridentity.Identity) logr.Logger {
	inner := logger.GetSink()
	if inner == nil {
		return logger
	}
	// The new sink's own functions lie between the caller and the sink below.
	return logger.WithSink(&sink{inner: deeper(inner, 1), identity: identity})
}

// deeper has a sink look for the caller further up, where it can.
func deeper(inner logr.LogSink, depth int) logr.LogSink {
	if s, ok := inner.(logr.CallDepthLogSink); ok {
		return s.WithCallDepth(depth)
	}
	return inner
}

type sink struct {
	inner    logr.LogSink
	identity func() clusteridentity.Identity
}

var (
	_ logr.CallDepthLogSink       = &sink{}
	_ logr.CallStackHelperLogSink = &sink{}
)

// with puts the identity before the values of a line.
func (s *sink) with(values []any) []any {
	identity := s.identity()
	if identity.ID == "" && !identity.IsMember() {
		return values
	}
	all := make([]any, 0, len(values)+4)
	if identity.ID != "" {
		all = append(all, ClusterIDKey, identity.ID)
	}
	if identity.IsMember() {
		all = append(all, ClusterSetKey, identity.ClusterSet)
	}
	return append(all, values...)
}

// Init implements logr.LogSink. The sink below belongs to a logger, and has been through it.
func (s *sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s *sink) Enabled(level int) bool { return s.inner.Enabled(level) }

// Info implements logr.LogSink.
func (s *sink) Info(level int, message string, values ...any) {
	s.GetCallStackHelper()()
	s.inner.Info(level, message, s.with(values)...)
}

// Error implements logr.LogSink.
func (s *sink) Error(err error, message string, values ...any) {
	s.GetCallStackHelper()()
	s.inner.Error(err, message, s.with(values)...)
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(values ...any) logr.LogSink {
	return &sink{inner: s.inner.WithValues(values...), identity: s.identity}
}

// WithName implements logr.LogSink.
func (s *sink) WithName(name string) logr.LogSink {
	return &sink{inner: s.inner.WithName(name), identity: s.identity}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s *sink) WithCallDepth(depth int) logr.LogSink {
	return &sink{inner: deeper(s.inner, depth), identity: s.identity}
}

// GetCallStackHelper implements logr.CallStackHelperLogSink, for loggers that ask the testing package who the caller is.
func (s *sink) GetCallStackHelper() func() {
	if inner, ok := s.inner.(logr.CallStackHelperLogSink); ok {
		return inner.GetCallStackHelper()
	}
	return func() {}
}
