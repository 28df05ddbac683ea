// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaims_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/clusterclaims"
)

// unreachable is a cluster that never answers.
type unreachable struct{}

func (unreachable) RoundTrip(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

// TestPausesOfWork runs a loop in a bubble, whose claim never changes, and looks at the time between two attempts.
func TestPausesOfWork(t *testing.T) {
	t.Parallel()
	const failed = -1 // in place of the time that work returns
	ms := func(numbers ...int) (all []time.Duration) {
		for _, number := range numbers {
			all = append(all, time.Duration(number)*time.Millisecond)
		}
		return all
	}
	for name, tc := range map[string]struct {
		results   []time.Duration
		longPause time.Duration
		want      []time.Duration
	}{
		"work that succeeds": {ms(5000, 7000), 0, ms(5000, 7000)},
		"work that fails":    {ms(failed, failed, failed, failed, failed, failed, failed, failed, failed, failed), 0, ms(200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000)},
		"with a long pause":  {ms(failed, failed, failed, failed), 500 * time.Millisecond, ms(200, 400, 500, 500)},
		"after success":      {ms(failed, failed, 5000, failed, failed), 0, ms(200, 400, 5000, 200, 400)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				claim, err := clusterclaims.NewClaim(&rest.Config{Host: "https://cluster.example.com", Transport: unreachable{}}, "x")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var attempts []time.Time
				loop := clusterclaims.Loop{Claim: claim, Clock: clock.RealClock{}, LongPause: tc.longPause, Work: func(context.Context) (time.Duration, error) {
					attempts = append(attempts, time.Now())
					if len(attempts) > len(tc.results) {
						cancel()
						return 0, nil
					}
					if result := tc.results[len(attempts)-1]; result >= 0 {
						return result, nil
					}
					return time.Hour, errors.New("not done")
				}}
				loop.Run(ctx)
				var pauses []time.Duration
				for i := 1; i < len(attempts); i++ {
					pauses = append(pauses, attempts[i].Sub(attempts[i-1]))
				}
				if !slices.Equal(pauses, tc.want) {
					t.Errorf("pauses of %v, want %v", pauses, tc.want)
				}
			})
		})
	}
}

// TestAConditionIsWrittenWhenItSaysSomethingElse looks at the requests for several conditions of one claim.
func TestAConditionIsWrittenWhenItSaysSomethingElse(t *testing.T) {
	t.Parallel()
	said := metav1.Condition{Type: "Good", Status: metav1.ConditionTrue, Reason: "Fine", Message: "All is well.", ObservedGeneration: 3}
	for name, tc := range map[string]struct {
		change           func(*v1alpha1.ClusterClaim, *metav1.Condition)
		code             int
		written, changed bool
		fails            bool
	}{
		"the same":                 {func(*v1alpha1.ClusterClaim, *metav1.Condition) {}, http.StatusOK, false, false, false},
		"another status":           {func(_ *v1alpha1.ClusterClaim, c *metav1.Condition) { c.Status = metav1.ConditionFalse }, http.StatusOK, true, true, false},
		"another message":          {func(_ *v1alpha1.ClusterClaim, c *metav1.Condition) { c.Message = "It still is." }, http.StatusOK, true, true, false},
		"of a later generation":    {func(claim *v1alpha1.ClusterClaim, _ *metav1.Condition) { claim.Generation++ }, http.StatusOK, true, true, false},
		"never observed before":    {func(claim *v1alpha1.ClusterClaim, _ *metav1.Condition) { claim.Status.ObservedGeneration = 0 }, http.StatusOK, true, false, false},
		"that cannot be written":   {func(_ *v1alpha1.ClusterClaim, c *metav1.Condition) { c.Reason = "Better" }, http.StatusConflict, true, false, true},
		"the first one of a claim": {func(claim *v1alpha1.ClusterClaim, _ *metav1.Condition) { claim.Status.Conditions = nil }, http.StatusOK, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var written atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/x/status") {
					written.Add(1)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(`{"kind":"ClusterClaim","apiVersion":"multicluster.k8s.io/v1alpha1"}`))
			}))
			t.Cleanup(server.Close)
			config := &rest.Config{Host: server.URL}
			config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
			client, err := clusterclaims.NewClaim(config, "x")
			if err != nil {
				t.Fatal(err)
			}
			claim := &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "x", Generation: 3}, Status: v1alpha1.ClusterClaimStatus{
				ObservedGeneration: 3, Conditions: []metav1.Condition{said},
			}}
			condition := said
			tc.change(claim, &condition)
			changed, err := client.SetCondition(t.Context(), claim, condition)
			if changed != tc.changed || (err != nil) != tc.fails || (written.Load() > 0) != tc.written {
				t.Errorf("changed %t, %v, %d writes; want %t, an error: %t, written: %t", changed, err, written.Load(), tc.changed, tc.fails, tc.written)
			}
		})
	}
}

// TestErrorsOfWorkAreLoggedWhenTheyChange looks at the log of a loop in a bubble. That somebody else was faster is not logged.
func TestErrorsOfWorkAreLoggedWhenTheyChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		claim, err := clusterclaims.NewClaim(&rest.Config{Host: "https://cluster.example.com", Transport: unreachable{}}, "x")
		if err != nil {
			t.Fatal(err)
		}
		kind := v1alpha1.SchemeGroupVersion.WithResource("clusterclaims").GroupResource()
		one, other := errors.New("one"), errors.New("other")
		results := []error{apierrors.NewConflict(kind, "x", one), apierrors.NewAlreadyExists(kind, "x"), one, one, other, one, nil, one}
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		defer cancel()
		loop := clusterclaims.Loop{Claim: claim, Clock: clock.RealClock{}, Work: func(context.Context) (time.Duration, error) {
			if len(results) == 0 {
				cancel()
				return 0, nil
			}
			next := results[0]
			results = results[1:]
			return 0, next
		}}
		loop.Run(ctx)
		var logged []string
		for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
			if entry.Err != nil {
				logged = append(logged, entry.Err.Error())
			}
		}
		if want := []string{"one", "other", "one", "one"}; !slices.Equal(logged, want) {
			t.Errorf("logged %v, want %v", logged, want)
		}
	})
}
