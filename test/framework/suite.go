// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// suite is the testing.TB of fixtures that the tests of a package share. They end with Main.
type suite struct {
	testing.TB
	mu       sync.Mutex
	cleanups []func()
	failed   bool
}

var shared suite

// Main runs the tests of a package, and then stops the fixtures that they share. TestMain calls it.
func Main(m *testing.M) {
	code := m.Run()
	for _, cleanup := range slices.Backward(shared.cleanups) {
		cleanup()
	}
	if code == 0 && shared.failed {
		code = 1
	}
	os.Exit(code)
}

// SharedControlPlane and SharedServer return one for all tests of a package that neither restart it nor change what others see.
var (
	SharedControlPlane = sync.OnceValue(func() *ControlPlane { return StartControlPlane(&shared, nil) })
	SharedServer       = sync.OnceValue(func() *Server { return Start(&shared) })
)

func (s *suite) Helper() {}

func (s *suite) Name() string { return "shared" }

func (s *suite) Context() context.Context { return context.Background() }

func (s *suite) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *suite) TempDir() string {
	dir, err := os.MkdirTemp("", "annex-shared-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (s *suite) Log(args ...any) { _, _ = fmt.Fprintln(os.Stderr, args...) }

func (s *suite) Logf(format string, args ...any) { s.Log(fmt.Sprintf(format, args...)) }

func (s *suite) Error(args ...any) {
	s.Log(args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = true
}

func (s *suite) Errorf(format string, args ...any) { s.Error(fmt.Sprintf(format, args...)) }

// Fatal ends the process: no test can do without what they share.
func (s *suite) Fatal(args ...any) {
	s.Log(args...)
	os.Exit(1)
}

func (s *suite) Fatalf(format string, args ...any) { s.Fatal(fmt.Sprintf(format, args...)) }
