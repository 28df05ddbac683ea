// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// uses reports one gate by as many versions of a component.
func (s *stage) uses(name, component string, versions ...string) {
	s.t.Helper()
	for _, version := range versions {
		report := &v1alpha1.FeatureReport{Spec: v1alpha1.FeatureReportSpec{
			Component: component, Version: version, Instance: component + "-0", Features: []v1alpha1.ReportedFeature{{Name: name, Value: disabled, Default: disabled}},
		}}
		if _, err := s.server.Annex.FeaturesV1alpha1().FeatureReports(s.namespace).Create(s.t.Context(), report, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// used lists the versions whose use a Feature lists.
func (s *stage) used(name string) []string {
	s.t.Helper()
	f, err := s.server.Annex.FeaturesV1alpha1().Features(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, use := range f.Status.Uses {
		out = append(out, use.Component+" "+use.Version)
	}
	slices.Sort(out)
	return out
}

func (s *stage) waitForUses(name string, want ...string) {
	s.t.Helper()
	s.wait(fmt.Sprintf("such that the uses of %s are %v", name, want), func(*v1alpha1.Feature) bool { return slices.Equal(s.used(name), want) })
}

// testUsesThatAreOver has reports of programs that are gone, for a Feature of the engines, one that no server announces, and one that
// is observed.
func testUsesThatAreOver(s *stage) {
	s.timings.UseRetention = time.Second
	client := s.server.Annex.FeaturesV1alpha1().Features(s.namespace)
	for _, name := range []string{"Foo", "Unknown", "Observed"} {
		s.uses(name, "client", "v0", "v1")
	}
	observed, err := client.Get(s.t.Context(), "Observed", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	observed.Status.Source = v1alpha1.SourceObserved
	if observed, err = client.UpdateStatus(s.t.Context(), observed, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.answer(s.reporter("live", 600))
	for _, name := range []string{"a", "b"} {
		s.start(name, "v1.0.0", s.foo(enabled, v1alpha1.SourceDefault))
	}
	s.wait("asking", func(f *v1alpha1.Feature) bool { return waits(f, "") })
	s.waitForUses("Unknown", "client v1")
	s.wait("without those that are over", func(*v1alpha1.Feature) bool { return !slices.Contains(s.used("Foo"), "client v0") })
	if now, err := client.Get(s.t.Context(), "Observed", metav1.GetOptions{}); err != nil || now.ResourceVersion != observed.ResourceVersion {
		s.t.Errorf("the observed Feature was written: %+v, %v", now, err)
	}
	before, err := client.Get(s.t.Context(), "Unknown", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.holdsFor(2*s.timings.UseRetention, func(*v1alpha1.Feature) bool {
		now, err := client.Get(s.t.Context(), "Unknown", metav1.GetOptions{})
		return err == nil && now.ResourceVersion == before.ResourceVersion
	})
}

// testFullList fills a list: it makes room long before uses are removed otherwise.
func testFullList(s *stage) {
	s.timings.UseRetention = time.Minute // So a full list is done with in a second.
	s.reporter("live", 600)
	versions := []string{"v1"}
	for i := range 63 {
		versions = append(versions, fmt.Sprintf("v0.%d", i))
	}
	s.uses("Full", "client", versions...)
	if got := len(s.used("Full")); got != 64 {
		s.t.Fatalf("%d uses are listed, want 64", got)
	}
	s.uses("Foo", "client", "v0", "v1")
	s.start("a", "v1.0.0")
	s.waitForUses("Full", "client v1")
	s.uses("Full", "another", "v3")
	s.waitForUses("Full", "another v3", "client v1")
	if got := s.used("Foo"); !slices.Equal(got, []string{"client v0", "client v1"}) {
		s.t.Errorf("where there is room, the uses are %v, want those of a minute left alone", got)
	}
}
