// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterid

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
)

// host serves the claim of a cluster, and the namespace kube-system with the uid u-1.
type host struct {
	t *testing.T

	mu    sync.Mutex
	claim *v1alpha1.ClusterClaim
	// codes has the codes of the answers that fail, by method and the last part of the path.
	codes map[string]int
	// writes are the method and the last part of the path of each write, and events the reasons of Events.
	writes []string
	events []string
}

func startHost(t *testing.T) (*host, *rest.Config) {
	t.Helper()
	h := &host{t: t, codes: map[string]int{}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	return h, config
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := r.Method + " " + r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	code, answer := h.codes[last], any(nil)
	switch {
	case code != 0:
		reasons := map[int]metav1.StatusReason{http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusConflict: metav1.StatusReasonConflict}
		answer = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reasons[code], Code: int32(code)}
	case last == "GET kube-system":
		code, answer = http.StatusOK, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{UID: "u-1"}}
	case last == "POST events":
		event := &eventsv1.Event{}
		h.decode(r, event)
		h.events = append(h.events, event.Reason)
		code, answer = http.StatusCreated, event
	case r.Method == http.MethodPost || r.Method == http.MethodPut:
		h.writes = append(h.writes, last)
		h.claim = &v1alpha1.ClusterClaim{}
		h.decode(r, h.claim)
		code, answer = http.StatusOK, h.claim
	case h.claim != nil:
		code, answer = http.StatusOK, h.claim
	default:
		code = http.StatusNotFound
		answer = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		h.t.Error(err)
	}
}

func (h *host) decode(r *http.Request, into any) {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		h.t.Error(err)
	}
}

// TestTheClaimAndItsSource has the controller look twice, of which the second time changes nothing.
func TestTheClaimAndItsSource(t *testing.T) {
	t.Parallel()
	claim := func(value, provisioned string) *v1alpha1.ClusterClaim {
		c := &v1alpha1.ClusterClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterClaim"},
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClaimID, Generation: 1}, Spec: v1alpha1.ClusterClaimSpec{Value: value},
		}
		if provisioned != "" {
			c.Annotations = map[string]string{ProvisionedAnnotation: provisioned}
		}
		return c
	}
	deleted := claim("one", "")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	deleted.Finalizers = []string{"annex.test/hold"}
	for name, tc := range map[string]struct {
		literal string
		claim   *v1alpha1.ClusterClaim
		codes   map[string]int
		value   string
		reason  string // empty if the claim has no condition
		message string
		writes  string
		events  string
		fails   bool
	}{
		"there is none":                   {value: "u-1", reason: "Provisioned", message: "the uid of the namespace kube-system", writes: "POST clusterclaims,PUT status"},
		"there is none, a literal":        {literal: "mine", value: "mine", reason: "Provisioned", message: "--cluster-id", writes: "POST clusterclaims,PUT status"},
		"there is none, and no namespace": {codes: map[string]int{"GET kube-system": http.StatusForbidden}, fails: true},
		"a literal needs no namespace":    {literal: "mine", codes: map[string]int{"GET kube-system": http.StatusForbidden}, value: "mine", reason: "Provisioned", writes: "POST clusterclaims,PUT status"},
		"it cannot be read":               {codes: map[string]int{"GET id.k8s.io": http.StatusForbidden}, fails: true},
		"it cannot be created":            {codes: map[string]int{"POST clusterclaims": http.StatusForbidden}, fails: true},
		"it is being deleted":             {claim: deleted, value: "one"},
		"of the controller":               {claim: claim("u-1", "u-1"), value: "u-1", reason: "Provisioned", writes: "PUT status"},
		"of somebody else, the same":      {claim: claim("u-1", ""), value: "u-1", reason: "SameByAnother", writes: "PUT status"},
		"of somebody else":                {claim: claim("theirs", ""), value: "theirs", reason: "Differs", message: `"theirs"`, writes: "PUT status", events: "Differs"},
		"changed by somebody else":        {claim: claim("theirs", "u-1"), value: "theirs", reason: "Differs", writes: "PUT status", events: "Differs"},
		"of another literal":              {literal: "two", claim: claim("one", "one"), value: "two", reason: "Provisioned", writes: "PUT id.k8s.io,PUT status"},
		"of a member": {
			literal: "two", claim: claim("one", "one"), codes: map[string]int{"PUT id.k8s.io": http.StatusUnprocessableEntity},
			value: "one", reason: "Member", message: "leave the set", writes: "PUT status", events: "Member",
		},
		"changed meanwhile":            {literal: "two", claim: claim("one", "one"), codes: map[string]int{"PUT id.k8s.io": http.StatusConflict}, value: "one", fails: true},
		"its status cannot be written": {claim: claim("theirs", ""), codes: map[string]int{"PUT status": http.StatusConflict}, value: "theirs", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, config := startHost(t)
			h.claim, h.codes = tc.claim, tc.codes
			o := NewOptions()
			o.Host = config
			if tc.literal != "" {
				o.Source, o.ID = SourceLiteral, tc.literal
			}
			c, err := New(*o)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if again, err := c.provide(t.Context()); again != recheck || (err != nil) != tc.fails {
					t.Errorf("got %v, again after %s; want an error: %t", err, again, tc.fails)
				}
			}
			if got := strings.Join(h.writes, ","); got != tc.writes || strings.Join(h.events, ",") != tc.events {
				t.Errorf("written: %s, and Events: %v; want %s, and %s", got, h.events, tc.writes, tc.events)
			}
			if h.claim == nil {
				if tc.value != "" {
					t.Error("there is no claim")
				}
				return
			}
			condition := meta.FindStatusCondition(h.claim.Status.Conditions, v1alpha1.ClaimProvisioned)
			if h.claim.Spec.Value != tc.value || (condition != nil) != (tc.reason != "") {
				t.Fatalf("the claim is %+v, want %s, %s", h.claim, tc.value, tc.reason)
			}
			if condition != nil && (condition.Reason != tc.reason || !strings.Contains(condition.Message, tc.message)) {
				t.Errorf("the condition is %+v, want %s with %q", condition, tc.reason, tc.message)
			}
		})
	}
}

func TestOptionsOfNoController(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"no host": {Source: SourceKubeSystemUID}, "a mistake": {Host: &rest.Config{}, Source: SourceLiteral},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: the controller was made", name)
		}
	}
	for source, want := range map[Source]bool{SourceKubeSystemUID: true, SourceLiteral: true, SourceNone: false} {
		if got := (&Options{Source: source}).Enabled(); got != want {
			t.Errorf("%s: enabled %t, want %t", source, got, want)
		}
	}
}

// requests counts requests, and answers none.
type requests struct{ number atomic.Int32 }

func (r *requests) RoundTrip(*http.Request) (*http.Response, error) {
	r.number.Add(1)
	return nil, errors.New("the cluster is away")
}

func TestWithoutASourceNothingIsDone(t *testing.T) {
	t.Parallel()
	for source, want := range map[Source]bool{SourceNone: false, SourceKubeSystemUID: true} {
		synctest.Test(t, func(t *testing.T) {
			made := &requests{}
			c, err := New(Options{Host: &rest.Config{Host: "https://cluster.example.com", Transport: made}, Source: source})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			synctest.Wait()
			select {
			case err := <-ended:
				t.Errorf("%s: it ended by itself with %v", source, err)
			default:
			}
			if got := made.number.Load() > 0; got != want {
				t.Errorf("%s: %d requests, want some: %t", source, made.number.Load(), want)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
