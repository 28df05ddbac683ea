// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/test/framework/poll"
)

// hostIsRestarted takes kube-apiserver away while annex runs.
func hostIsRestarted(t *testing.T) {
	a := registerAnnex(t, embedded(t), givenCertificates)
	a.start(t)
	a.waitAvailable(t)
	features := a.client.FeaturesV1alpha1().Features("kube-system")
	create := func(ctx context.Context, name string) error {
		_, err := features.Create(ctx, &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	if err := create(t.Context(), "Before"); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		host.KillAPIServer()
		if err := host.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		a.waitAvailable(t)
		// A namespace that annex has not seen yet shows that it follows the host again.
		namespace := makeNamespace(t, fmt.Sprintf("after-restart-%d", round))
		poll.Eventually(t, patience, "a Feature is created in a new namespace", func(ctx context.Context) error {
			_, err := a.client.FeaturesV1alpha1().Features(namespace).Create(ctx, &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "After"}}, metav1.CreateOptions{})
			return err
		})
		t.Logf("annex was back %s after its host", time.Since(back).Round(10*time.Millisecond))
	}
	if _, err := features.Get(t.Context(), "Before", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if strings.Contains(a.process.Log(), "goroutine ") {
		t.Errorf("annex's log has a stack trace:\n%s", a.process.Tail(50))
	}
}

// hostIsAwayAtStart starts annex before its host.
func hostIsAwayAtStart(t *testing.T) {
	a := registerAnnex(t, embedded(t), ownCertificates)
	host.KillAPIServer()
	restarted := false
	t.Cleanup(func() {
		if !restarted {
			// The tests after this one need the host.
			if err := host.StartAPIServer(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	a.start(t)
	a.waitForLog(t, "Waiting for the host")
	if err := host.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	restarted = true
	a.waitAvailable(t)
}
