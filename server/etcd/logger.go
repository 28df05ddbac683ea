// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"runtime"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// newLogger sends etcd's log to klog: errors always, warnings at -v=1 unless they tell of trouble with the disk, the rest at
// -v=4, but nothing that is for those who debug etcd: that has every object that is written, Secrets included. What makes etcd give up goes
// to died.
func newLogger(logger klog.Logger, died chan<- string) *zap.Logger {
	return zap.New(klogCore{logger: logger.WithName("etcd")}, zap.WithFatalHook(deathHook(died)), zap.WithPanicHook(deathHook(died)))
}

type klogCore struct {
	logger klog.Logger
	fields []zapcore.Field
}

func (c klogCore) Enabled(level zapcore.Level) bool {
	return level >= zapcore.WarnLevel || level >= zapcore.InfoLevel && c.logger.V(4).Enabled()
}

func (c klogCore) With(fields []zapcore.Field) zapcore.Core {
	return klogCore{logger: c.logger, fields: append(append([]zapcore.Field{}, c.fields...), fields...)}
}

func (c klogCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c klogCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	encoded := zapcore.NewMapObjectEncoder()
	for _, field := range append(append([]zapcore.Field{}, c.fields...), fields...) {
		field.AddTo(encoded)
	}
	values := make([]any, 0, 2*len(encoded.Fields))
	for key, value := range encoded.Fields {
		values = append(values, key, value)
	}
	logger := c.logger.WithValues(values...)
	switch {
	case entry.Level >= zapcore.ErrorLevel && !isOrdinary(entry.Message):
		logger.Error(nil, entry.Message)
	case entry.Level == zapcore.WarnLevel && tellsOfTheDisk(entry.Message):
		logger.Info("warning: " + entry.Message)
	case entry.Level >= zapcore.WarnLevel:
		logger.V(1).Info(entry.Message)
	default:
		logger.V(4).Info(entry.Message)
	}
	return nil
}

func (c klogCore) Sync() error { return nil }

func tellsOfTheDisk(message string) bool {
	switch message {
	case "slow fdatasync", "all alarms", "alarm raised", "leader failed to send out heartbeat on time; took too long, leader is overloaded likely from slow disk":
		return true
	}
	return false
}

// isOrdinary knows what etcd calls errors on each first start and each stop.
func isOrdinary(message string) bool {
	switch message {
	case "setting up serving from embedded etcd failed.", "failed to update storage version":
		return true
	}
	return false
}

// deathHook runs in place of a panic or exit when etcd finds that it cannot go on. It ends the goroutine, so nothing is
// acknowledged any more, and leaves the end of the process to those who must stop other things first.
type deathHook chan<- string

func (h deathHook) OnWrite(checked *zapcore.CheckedEntry, fields []zapcore.Field) {
	message := checked.Message
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			message += ": " + err.Error()
		}
	}
	select {
	case h <- message:
	default: // the first reason is the one that counts
	}
	runtime.Goexit()
}
