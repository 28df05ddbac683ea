// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	fairqueuing "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// countingQueues executes and counts every request.
type countingQueues struct {
	utilflowcontrol.Interface
	handled int
}

func (q *countingQueues) Handle(_ context.Context, _ utilflowcontrol.RequestDigest,
	_ func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	_ func() flowcontrolrequest.WorkEstimate, _ fairqueuing.QueueNoteFn, execute func(),
) {
	q.handled++
	execute()
}

func (q *countingQueues) RegisterWatch(*http.Request) utilflowcontrol.ForgetWatchFunc {
	return func() {}
}

// TestFlowControlSwitches sends requests through upstream's filter while one read and one write, all that the limits permit, are in flight.
func TestFlowControlSwitches(t *testing.T) {
	t.Parallel()
	queues := &countingQueues{}
	control := NewFlowControl(queues, 1, 1, func(path string) bool { return path == "/livez" })
	isLongRunning := func(_ *http.Request, info *request.RequestInfo) bool {
		return info.Verb == "watch" || info.Verb == "proxy"
	}
	entered, release := make(chan struct{}), make(chan struct{})
	handler := genericfilters.WithPriorityAndFairness(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			entered <- struct{}{}
			<-release
		}
		w.WriteHeader(http.StatusOK)
	}), isLongRunning, control, func(*http.Request, string, string) flowcontrolrequest.WorkEstimate {
		return flowcontrolrequest.WorkEstimate{}
	}, time.Minute)
	send := func(verb, path string, groups ...string) *httptest.ResponseRecorder {
		ctx := request.WithRequestInfo(t.Context(), &request.RequestInfo{Verb: verb, Path: path})
		ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "jane", Groups: groups})
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		return recorder
	}
	check := func(name string, want int, verb, path string, groups ...string) {
		t.Helper()
		got := send(verb, path, groups...)
		if got.Code != want {
			t.Errorf("%s: got %d, want %d", name, got.Code, want)
		}
		if retry := got.Header().Get("Retry-After"); (retry != "") != (want == http.StatusTooManyRequests) {
			t.Errorf("%s: Retry-After is %q", name, retry)
		}
	}
	done := make(chan struct{}, 2)
	for _, verb := range []string{"list", "create"} {
		check("before the limit", http.StatusOK, verb, "/apis")
		go func() {
			send(verb, "/hang")
			done <- struct{}{}
		}()
		<-entered
	}
	check("a read above the limit", http.StatusTooManyRequests, "get", "/apis")
	check("a write above the limit", http.StatusTooManyRequests, "update", "/apis")
	check("a health check", http.StatusOK, "get", "/livez")
	check("a single health check", http.StatusTooManyRequests, "get", "/livez/etcd")
	check("a watch", http.StatusOK, "watch", "/apis")
	check("an upgrade", http.StatusOK, "proxy", "/apis")
	check("system:masters", http.StatusOK, "get", "/apis", user.SystemPrivilegedGroup)
	if queues.handled > 0 {
		t.Errorf("%d requests were queued before queues were enabled", queues.handled)
	}
	control.EnableQueues()
	check("a read with queues", http.StatusOK, "get", "/apis")
	check("a health check with queues", http.StatusOK, "get", "/livez")
	if queues.handled != 2 {
		t.Errorf("%d requests were queued, want 2", queues.handled)
	}
	close(release)
	<-done
	<-done
	if len(control.readOnly)+len(control.mutating) > 0 {
		t.Error("a request has ended and keeps its seat")
	}
}

func TestFlowControlWithoutLimits(t *testing.T) {
	t.Parallel()
	control := NewFlowControl(nil, 0, 0, func(string) bool { return false })
	for _, verb := range []string{"get", "create"} {
		executed := false
		digest := utilflowcontrol.RequestDigest{RequestInfo: &request.RequestInfo{Verb: verb}, User: &user.DefaultInfo{}}
		control.Handle(t.Context(), digest, nil, nil, nil, func() { executed = true })
		if !executed {
			t.Errorf("%s was rejected", verb)
		}
	}
}
