// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectlfeature

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestNobodyJudgesTheFeatureOfAServerThatWasKilled has the only server of a namespace announce a feature that is On, and die without a
// word.
func TestNobodyJudgesTheFeatureOfAServerThatWasKilled(t *testing.T) {
	t.Parallel()
	const namespace, name = "killed", "Frobbing"
	p := start(t, func(o *standalone.Options) {
		o.Extension.Lifecycle.Timings.LeaseDuration, o.Extension.Lifecycle.Timings.RenewInterval = 2*time.Second, time.Second
	})
	_, err := p.server.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var dead atomic.Bool
	config := rest.CopyConfig(p.server.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &mortal{next, &dead} })
	annex, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	host, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	run := func() (stop func()) {
		engine, err := lifecycle.New(lifecycle.Options{
			Component: "frobber", Instance: "one", Version: "v1.0.0", Namespace: namespace, Client: annex, Leases: host.CoordinationV1(),
			Features: []lifecycle.Feature{{Name: name, Default: v1alpha1.ValueDisabled, Configured: v1alpha1.ValueEnabled, Source: v1alpha1.SourceCommandLine, Stability: v1alpha1.StabilityBeta}},
			Timings:  lifecycle.Timings{LeaseDuration: 2 * time.Second, RenewInterval: 500 * time.Millisecond, AnswerWindow: 100 * time.Millisecond, WriteGrace: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- engine.Run(ctx) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	features := p.server.Annex.FeaturesV1alpha1().Features(namespace)
	available := func(want metav1.ConditionStatus) {
		t.Helper()
		framework.Eventually(t, patience, func() error {
			feature, err := features.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return poll.Want(feature.Status.State == v1alpha1.StateOn && meta.IsStatusConditionPresentAndEqual(feature.Status.Conditions, v1alpha1.FeatureAvailable, want), feature.Status.String())
		})
	}
	stop := run()
	available(metav1.ConditionTrue)
	p.want(t, 0, "", "none stands in the way", "upgrade-check", "-n", namespace)
	if err := features.Delete(t.Context(), name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete the Feature of a live server: got %v, want 403", err)
	}

	dead.Store(true)
	stop()
	if list, err := p.server.Kubernetes.CoordinationV1().Leases(namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Fatalf("the server gave its Lease back: %v, %v", list, err)
	}
	available(metav1.ConditionFalse)
	p.want(t, 1, `^killed +Frobbing +On +Beta +Unknown +NotAnnounced`, "stands in the way", "upgrade-check", "-n", namespace)

	dead.Store(false)
	stop = run()
	available(metav1.ConditionTrue)
	p.want(t, 0, "", "none stands in the way", "upgrade-check", "-n", namespace)
	dead.Store(true)
	stop()
	available(metav1.ConditionFalse)
	if err := features.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete the Feature of a server that is gone: %v", err)
	}
}

// mortal reaches nobody when its process is dead.
type mortal struct {
	next http.RoundTripper
	dead *atomic.Bool
}

func (m *mortal) RoundTrip(request *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		return nil, errors.New("killed")
	}
	return m.next.RoundTrip(request)
}
