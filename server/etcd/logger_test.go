// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/zap"
	"k8s.io/klog/v2/textlogger"
)

// TestWhatIsWrittenIsNotLogged has etcd tell of a write, which it does for those who debug it.
func TestWhatIsWrittenIsNotLogged(t *testing.T) {
	t.Parallel()
	out := &bytes.Buffer{}
	logger := newLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(out), textlogger.Verbosity(10))), make(chan string, 1))
	logger.Debug("Apply", zap.String("raftReq", "a password"))
	logger.With(zap.String("member", "a")).Info("became leader")
	if got := out.String(); strings.Contains(got, "password") || !strings.Contains(got, "became leader") {
		t.Errorf("it logged:\n%s", got)
	}
}
