// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycle"
)

// history is every change of what is watched, from the moment when it began.
type history struct {
	t       *testing.T
	watcher watch.Interface
}

// record records the Feature.
func (s *stage) record() *history {
	s.t.Helper()
	watcher, err := s.server.Annex.FeaturesV1alpha1().Features(s.namespace).Watch(s.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=Foo"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(watcher.Stop)
	return &history{t: s.t, watcher: watcher}
}

// until returns all changes up to the one with a resourceVersion.
func (h *history) until(resourceVersion string) []watch.Event {
	h.t.Helper()
	var out []watch.Event
	for end := time.After(30 * time.Second); ; {
		select {
		case <-end:
			h.t.Fatalf("the watch did not come to %s; it saw %d changes", resourceVersion, len(out))
		case event, ok := <-h.watcher.ResultChan():
			if !ok {
				h.t.Fatalf("the watch ended before %s", resourceVersion)
			}
			out = append(out, event)
			if accessor, err := meta.Accessor(event.Object); err == nil && accessor.GetResourceVersion() == resourceVersion {
				return out
			}
		}
	}
}

// states lists the states of the Feature one after the other.
func (h *history) states(resourceVersion string) []string {
	h.t.Helper()
	var out []string
	for _, event := range h.until(resourceVersion) {
		state := string(event.Type)
		if f, ok := event.Object.(*v1alpha1.Feature); ok && event.Type != watch.Deleted {
			state = string(f.Status.State)
		}
		if len(out) == 0 || out[len(out)-1] != state {
			out = append(out, state)
		}
	}
	return out
}

// data is a feature whose tasks delete all ConfigMaps that its users have stored: its sweep, and those of a change of version.
func (s *stage) data(version string, value v1alpha1.Value, source v1alpha1.Source) lifecycle.Feature {
	remove := func(name string) []lifecycle.Task {
		return []lifecycle.Task{{Name: name, DataChanging: true, Run: func(ctx context.Context, _ *lifecycle.Progress) error {
			s.note("%s-by-%s", name, version)
			return s.server.Kubernetes.CoreV1().ConfigMaps(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "user=foo"})
		}}}
	}
	f := s.foo(value, source)
	f.On, f.Off = nil, remove("Sweep")
	f.Default = enabled
	if source == v1alpha1.SourceDefault {
		f.Default = value
	}
	if version != "v1.0.0" {
		f.Versions = []lifecycle.VersionChange{{At: "v1.1.0", Upgrade: remove("Convert")}}
	}
	return f
}

// testRollingOne replaces one replica of three by others, in versions, defaults and flags, and each time takes that back: neither the
// Feature's state nor what is stored ever changes. Then all are replaced, and both do.
func testRollingOne(s *stage) {
	const old, next = "v1.0.0", "v1.1.0"
	byDefault, byFlag := v1alpha1.SourceDefault, v1alpha1.SourceCommandLine
	replicas := map[string]*replica{}
	for _, name := range []string{"a", "b", "c"} {
		replicas[name] = s.start(name, old, s.data(old, enabled, byDefault))
	}
	s.settles(v1alpha1.StateOn)
	maps := s.server.Kubernetes.CoreV1().ConfigMaps(s.namespace)
	for i := range 3 {
		stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("user-", i), Labels: map[string]string{"user": "foo"}}}
		if _, err := maps.Create(s.t.Context(), stored, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	history := s.record()
	watcher, err := maps.Watch(s.t.Context(), metav1.ListOptions{LabelSelector: "user=foo"})
	if err != nil {
		s.t.Fatal(err)
	}
	defer watcher.Stop()
	for name, tc := range map[string]struct {
		version  string
		value    v1alpha1.Value
		source   v1alpha1.Source
		conflict bool
		kill     bool
	}{
		"another version":                              {version: next, value: enabled, source: byDefault},
		"another version that is killed":               {version: next, value: enabled, source: byDefault, kill: true},
		"another default":                              {version: old, value: disabled, source: byDefault, conflict: true},
		"another flag":                                 {version: old, value: disabled, source: byFlag, conflict: true},
		"another version and another default":          {version: next, value: disabled, source: byDefault, conflict: true},
		"another version, another default, and killed": {version: next, value: disabled, source: byDefault, conflict: true, kill: true},
	} {
		replicas["c"].end(s.t)
		replicas["c"] = s.start("c", tc.version, s.data(tc.version, tc.value, tc.source))
		s.wait("one that notices "+name, func(f *v1alpha1.Feature) bool {
			safe := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FeatureSafeToUpgrade)
			return isTrue(f, v1alpha1.FeatureConflict) == tc.conflict && (tc.conflict || safe.Reason == "SeveralVersions") && !isTrue(f, v1alpha1.FeatureSettled)
		})
		// So long that the new one counts as having seen all others.
		s.holdsFor(2*lifecycleTimings.RenewInterval, func(f *v1alpha1.Feature) bool { return f.Status.State == v1alpha1.StateOn && f.Status.Version == old })
		if tc.kill {
			replicas["c"].kill(s.t)
		} else {
			replicas["c"].end(s.t)
		}
		replicas["c"] = s.start("c", old, s.data(old, enabled, byDefault))
		s.settles(v1alpha1.StateOn)
	}
	if s.notes() != "" {
		s.t.Errorf("tasks that ran: %s", s.notes())
	}
	f := s.settles(v1alpha1.StateOn)
	if diff := cmp.Diff([]string{"On"}, history.states(f.ResourceVersion)); diff != "" {
		s.t.Errorf("states (-want,+got):\n%s", diff)
	}
	s.wantEvents(watcher, "ADDED user-0 ADDED user-1 ADDED user-2")

	for _, name := range []string{"a", "b", "c"} {
		replicas[name].end(s.t)
		s.start(name, next, s.data(next, enabled, byDefault))
	}
	f = s.wait("of the next version", func(f *v1alpha1.Feature) bool {
		return f.Status.Version == next && f.Status.State == v1alpha1.StateOn && isTrue(f, v1alpha1.FeatureSettled)
	})
	if diff := cmp.Diff([]string{"On", "TurningOn", "On"}, history.states(f.ResourceVersion)); diff != "" {
		s.t.Errorf("states when all were replaced (-want,+got):\n%s", diff)
	}
	s.wantEvents(watcher, "DELETED user-0 DELETED user-1 DELETED user-2")
	if got := s.notes(); got != "Convert-by-v1.1.0" {
		s.t.Errorf("tasks that ran when all were replaced: %s", got)
	}
}

// wantEvents compares what a watch has seen up to now, which a bookmark object of its own marks.
func (s *stage) wantEvents(watcher watch.Interface, want string) {
	s.t.Helper()
	maps := s.server.Kubernetes.CoreV1().ConfigMaps(s.namespace)
	marker, err := maps.Create(s.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "marker-", Labels: map[string]string{"user": "foo"}}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var got []string
	for _, event := range (&history{t: s.t, watcher: watcher}).until(marker.ResourceVersion) {
		if name := nameOf(event.Object); !strings.HasPrefix(name, "marker-") {
			got = append(got, string(event.Type)+" "+name)
		}
	}
	if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
		s.t.Errorf("changes of what is stored (-want,+got):\n%s", diff)
	}
}

func nameOf(obj runtime.Object) string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err.Error()
	}
	return accessor.GetName()
}
