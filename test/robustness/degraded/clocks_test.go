// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package degraded

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/test/framework"
)

// eventTTL is how long the server of TestBrokenParts keeps Events.
const eventTTL = 2 * time.Second

// eventsOfWrongClocks are from reporters that are decades behind or ahead. How long Events are kept depends on neither.
func eventsOfWrongClocks(t *testing.T, a *annex) {
	events := a.kubernetes.CoreV1().Events("default")
	for name, at := range map[string]time.Time{
		"behind": time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), "ahead": time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), "right": time.Now(),
	} {
		event := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "clock-" + name, Labels: map[string]string{"test": "clocks"}},
			InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Namespace: "default", Name: "a"},
			FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at), EventTime: metav1.NewMicroTime(at),
			Action: "Test", Reason: "Test", ReportingController: "example.com/test", ReportingInstance: "test", Type: corev1.EventTypeNormal,
		}
		if _, err := events.Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := events.Get(t.Context(), event.Name, metav1.GetOptions{}); err != nil {
			t.Errorf("an Event that was just written: %v", err)
		}
	}
	framework.Eventually(a.t, patience, func() error {
		list, err := events.List(t.Context(), metav1.ListOptions{LabelSelector: "test=clocks"})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d Events are left", len(list.Items))
		}
		return err
	})
}
