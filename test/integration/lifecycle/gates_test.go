// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	basegate "k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
)

// program is a process of a component that has the gate Foo.
type program struct {
	gate *featuregate.Gate
	stop context.CancelFunc
	done chan error
}

func (s *stage) program(instance string, value bool, more ...featuregate.Option) *program {
	s.t.Helper()
	base := basegate.NewVersionedFeatureGate(version.MajorMinor(1, 0))
	if err := base.AddVersioned(map[basegate.Feature]basegate.VersionedSpecs{"Foo": {{Version: version.MajorMinor(1, 0), PreRelease: basegate.Beta}}}); err != nil {
		s.t.Fatal(err)
	}
	if err := base.SetFromMapWithLogger(klog.FromContext(s.t.Context()), map[string]bool{"Foo": value}); err != nil {
		s.t.Fatal(err)
	}
	gate, err := featuregate.New(base, featuregate.Options{Component: "program", Version: "v1.0.0", Namespace: s.namespace, Instance: instance}, more...)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &program{gate: gate, stop: stop, done: make(chan error, 1)}
	go func() { p.done <- gate.Run(ctx, s.server.Config) }()
	s.t.Cleanup(func() { p.end(s.t) })
	gate.Enabled("Foo")
	return p
}

func (p *program) end(t *testing.T) {
	t.Helper()
	p.stop()
	select {
	case err := <-p.done:
		if err != nil {
			t.Errorf("a gate ended with %v", err)
		}
		p.done <- nil
	case <-time.After(30 * time.Second):
		t.Fatal("a gate did not end")
	}
}

// testGatesThatReport has programs with real gates: one that keeps the old value until it ends, and one that follows the Feature.
func testGatesThatReport(s *stage) {
	stubborn, following := s.program("stubborn", true), s.program("following", true, featuregate.FromAPI("Foo"))
	s.start("a", "v1.0.0", s.foo(disabled, v1alpha1.SourceCommandLine))
	s.wait("waiting for the one that does not follow", func(f *v1alpha1.Feature) bool {
		return waits(f, "program v1.0.0 (such as stubborn) sees it as Enabled")
	})
	if following.gate.Enabled("Foo") {
		s.t.Error("the gate that follows the Feature is enabled while that is TurningOff")
	}
	if s.notes() != "" {
		s.t.Errorf("tasks ran while a program used the feature: %s", s.notes())
	}
	stubborn.end(s.t)
	s.settles(v1alpha1.StateOff)
}
