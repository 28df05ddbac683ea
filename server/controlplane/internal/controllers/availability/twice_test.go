// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package availability_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/availability"
)

// at is where a server is.
type at string

func (a at) ResolveEndpoint(string, string, int32) (*url.URL, error) { return url.Parse(string(a)) }

// TestAFirstFailureDecidesNothing has servers that fail once, and that fail on, after they were available.
func TestAFirstFailureDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failures int32
		writes   int
	}{
		"once":    {failures: 1, writes: 0},
		"for two": {failures: 2, writes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) <= tc.failures {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			defer server.Close()
			client := fake.NewClientset(&apiregistrationv1.APIService{
				ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
				Spec: apiregistrationv1.APIServiceSpec{
					Group: "example.com", Version: "v1", InsecureSkipTLSVerify: true,
					Service: &apiregistrationv1.ServiceReference{Namespace: "a", Name: "b", Port: ptr.To[int32](443)},
				},
				Status: apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{{
					Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, Reason: "Passed", Message: "all checks passed",
				}}},
			})
			factory := informers.NewSharedInformerFactory(client, 0)
			controller := availability.New(factory.Apiregistration().V1().APIServices(), client.ApiregistrationV1(), remoteservers.Servers{Resolver: at(server.URL)})
			ctx, cancel := context.WithCancel(t.Context())
			factory.Start(ctx.Done())
			var running sync.WaitGroup
			running.Go(func() {
				if err := controller.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			writes := func() (count int) {
				for _, action := range client.Actions() {
					if action.GetVerb() == "update" {
						count++
					}
				}
				return count
			}
			// It is asked until it has answered well, and what that says is written.
			deadline := time.Now().Add(20 * time.Second)
			for asked.Load() <= tc.failures || writes() < tc.writes {
				if time.Now().After(deadline) {
					t.Fatalf("asked %d times, %d writes", asked.Load(), writes())
				}
				<-time.After(10 * time.Millisecond)
			}
			cancel()
			running.Wait()
			factory.Shutdown()
			if got := writes(); got != tc.writes {
				t.Errorf("%d writes of the status, want %d", got, tc.writes)
			}
		})
	}
}
