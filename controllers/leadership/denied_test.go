// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/controllers/leadership"
)

// TestALeaderThatMayNotReadSaysWhichRightIsMissing has a group whose caches never sync, until the right is granted.
func TestALeaderThatMayNotReadSaysWhichRightIsMissing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		f := newFaults()
		f.set(of(http.MethodGet, "/secrets", fault{status: http.StatusForbidden}))
		a := s.candidate("a", through(f), working(func(ctx context.Context, term *leadership.Term) error {
			own, err := kubernetes.NewForConfig(term.Client())
			if err != nil {
				return err
			}
			factory := informers.NewSharedInformerFactoryWithOptions(own, 0, informers.WithNamespace("default"))
			secrets := factory.Core().V1().Secrets().Informer()
			factory.Start(ctx.Done())
			defer factory.Shutdown()
			cache.WaitForCacheSync(ctx.Done(), secrets.HasSynced)
			<-ctx.Done()
			return nil
		}))
		s.await(soon, "start", "a", 1)
		throughout(t, quick.LeaseDuration, "a is healthy", func() (bool, any) { err := a.Check(nil); return err == nil, err })
		const want = "the proxy says so; grant that right"
		eventually(t, soon, "readiness names the group and the right", func() (bool, any) {
			err := a.Check(nil)
			return err != nil && strings.Contains(err.Error(), s.lease.Name+": ") && strings.Contains(err.Error(), want), err
		})
		a.wantPage(http.StatusInternalServerError, s.lease.Name+": leading", want)
		eventually(t, 2*time.Second, "an Event reports it", func() (bool, any) {
			list, err := s.client.EventsV1().Events(s.lease.Namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 {
				return false, list
			}
			event := list.Items[0]
			return event.Regarding.Name == s.lease.Name && event.Reason == "MissingRight" && strings.Contains(event.Note, want), event
		})
		if n := len(s.all("build", "a")); n != 1 {
			t.Errorf("%d terms were begun, want one that goes on", n)
		}
		f.set(nil)
		eventually(t, soon, "a is healthy once the right is granted", func() (bool, any) { err := a.Check(nil); return err == nil, err })
	})
}
