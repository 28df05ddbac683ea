// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"k8s.io/klog/v2/textlogger"
)

func TestBodiesAreKeptOut(t *testing.T) {
	t.Parallel()
	out := &bytes.Buffer{}
	logger := logr.New(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(out), textlogger.Verbosity(10))).GetSink())
	logger = logger.WithSink(newWithoutBodies(logger.GetSink()))
	logger.V(8).WithCallDepth(0).Info("Request Body", "body", "hidden")
	logger.WithName("x").WithValues("key", "value").V(8).Info("Response Body", "body", "hidden")
	logger.V(8).Info("something else", "body", "told")
	logger.Error(errors.New("a reason"), "failed")
	got := out.String()
	if strings.Contains(got, "hidden") {
		t.Errorf("it tells bodies:\n%s", got)
	}
	for _, want := range []string{`"Request Body" body="left out"`, `"Response Body" logger="x" key="value" body="left out"`, `"something else" body="told"`, `"failed" err="a reason"`} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not tell %s:\n%s", want, got)
		}
	}
	if lines := strings.Count(got, "logbodies_test.go:"); lines != 4 {
		t.Errorf("%d lines name where they come from, want 4:\n%s", lines, got)
	}
}
