// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/clusterclaims/hub"
)

// clusterAndHub serves the claims of the cluster u-1 and the reservations of a hub.
type clusterAndHub struct {
	t      *testing.T
	server *httptest.Server

	mu           sync.Mutex
	claims       map[string]*v1alpha1.ClusterClaim
	reservations []v1alpha1.ClusterIDReservation
	// refuses is the code of all answers of the hub, if it is set, and codes has those of answers to deletions, by their names.
	refuses int
	codes   map[string]int
	// freed are the names of reservations whose deletion was asked for, listed is how often they were listed, and events counts Events.
	freed          []string
	listed, events int
}

func startClusterAndHub(t *testing.T) *clusterAndHub {
	t.Helper()
	s := &clusterAndHub{t: t, claims: map[string]*v1alpha1.ClusterClaim{}, codes: map[string]int{}}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func (s *clusterAndHub) claim(name, value string, uid types.UID) {
	s.claims[name] = &v1alpha1.ClusterClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, ResourceVersion: "1", Generation: 1}, Spec: v1alpha1.ClusterClaimSpec{Value: value},
	}
}

// reservation adds a reservation of the set fleet.
func (s *clusterAndHub) reservation(id string, cluster, claim types.UID) *v1alpha1.ClusterIDReservation {
	s.reservations = append(s.reservations, v1alpha1.ClusterIDReservation{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterIDReservation"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ReservationName("fleet", id), UID: types.UID("r-" + id), ResourceVersion: "1"},
		Spec:       v1alpha1.ClusterIDReservationSpec{ClusterSet: "fleet", ClusterID: id, ClusterUID: cluster, ClaimUID: claim},
		Status:     v1alpha1.ClusterIDReservationStatus{Owner: "east"},
	})
	return &s.reservations[len(s.reservations)-1]
}

func (s *clusterAndHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code, answer := s.answer(r)
	if answer == nil {
		reasons := map[int]metav1.StatusReason{
			http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusConflict: metav1.StatusReasonConflict, http.StatusForbidden: metav1.StatusReasonForbidden,
		}
		if r.Method == http.MethodPost {
			reasons[http.StatusConflict] = metav1.StatusReasonAlreadyExists
		}
		answer = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reasons[code], Code: int32(code)}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

// answer returns the code of an answer, and what is in it; nil stands for the Status of the code.
func (s *clusterAndHub) answer(r *http.Request) (code int, object any) {
	name := path.Base(r.URL.Path)
	at := slices.IndexFunc(s.reservations, func(r v1alpha1.ClusterIDReservation) bool { return r.Name == name })
	switch {
	case strings.HasSuffix(r.URL.Path, "/namespaces/kube-system"):
		return http.StatusOK, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{UID: "u-1"}}
	case strings.Contains(r.URL.Path, "/clusterclaims/") && r.Method == http.MethodPut:
		written := &v1alpha1.ClusterClaim{}
		if err := json.NewDecoder(r.Body).Decode(written); err != nil {
			s.t.Error(err)
		}
		s.claims[written.Name] = written
		return http.StatusOK, written
	case strings.Contains(r.URL.Path, "/clusterclaims/"):
		if claim := s.claims[name]; claim != nil {
			return http.StatusOK, claim
		}
		return http.StatusNotFound, nil
	case strings.Contains(r.URL.Path, "/events.k8s.io/"):
		s.events++
		return http.StatusNotFound, nil
	case s.refuses != 0:
		return s.refuses, nil
	case r.Method == http.MethodPost:
		return http.StatusConflict, nil
	case r.Method == http.MethodDelete:
		s.freed = append(s.freed, name)
		if code := s.codes[name]; code != 0 {
			return code, nil
		}
		return http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
	case at >= 0:
		return http.StatusOK, &s.reservations[at]
	}
	s.listed++
	list := &v1alpha1.ClusterIDReservationList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterIDReservationList"}}
	for _, r := range s.reservations {
		if r.Spec.ClusterUID == "u-1" {
			list.Items = append(list.Items, r)
		}
	}
	return http.StatusOK, list
}

// controller returns one of the cluster, which does not run.
func (s *clusterAndHub) controller(clock *testingclock.FakeClock) *Controller {
	s.t.Helper()
	client, err := hub.NewClient(&rest.Config{Host: s.server.URL})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.Close)
	config := &rest.Config{Host: s.server.URL}
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	c, err := New(Options{Host: config, Hub: client, Clock: clock})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// TestWhatIsFreed looks at the reservations of a cluster again and again, and deletes what is asked for.
func TestWhatIsFreed(t *testing.T) {
	t.Parallel()
	type look struct {
		after   time.Duration
		version string        // of all reservations from then on
		next    time.Duration // when to look again
		freed   string        // the ids
		fails   bool
	}
	member := func(s *clusterAndHub) {
		s.claim(v1alpha1.ClaimID, "a", "i-1")
		s.claim(v1alpha1.ClaimClusterSet, "fleet", "c-1")
		s.reservation("a", "u-1", "c-1")
	}
	for name, tc := range map[string]struct {
		prepare func(s *clusterAndHub, c *Controller)
		looks   []look
	}{
		"a member's own": {func(s *clusterAndHub, _ *Controller) { member(s) }, []look{
			{next: time.Minute}, {after: time.Hour, next: time.Minute},
		}},
		"a member's former one, whose claim was seen": {func(s *clusterAndHub, c *Controller) {
			member(s)
			c.stored.add("c-0")
			s.reservation("b", "u-1", "c-0")
		}, []look{{next: time.Minute, freed: "b"}}},
		"a member's former one, whose claim nobody saw": {func(s *clusterAndHub, _ *Controller) {
			member(s)
			s.reservation("b", "u-1", "c-0")
		}, []look{
			{next: time.Minute}, {after: 4*time.Minute + 50*time.Second, next: 10 * time.Second}, {after: 10 * time.Second, next: time.Minute, freed: "b"},
		}},
		"one that changes": {func(s *clusterAndHub, _ *Controller) { s.reservation("b", "u-1", "c-0") }, []look{
			{next: time.Minute}, {after: 4 * time.Minute, version: "2", next: time.Minute}, {after: 4 * time.Minute, next: time.Minute},
			{after: time.Minute, next: time.Minute, freed: "b"},
		}},
		"one that is being deleted": {func(s *clusterAndHub, c *Controller) {
			member(s)
			c.stored.add("c-0")
			s.reservation("b", "u-1", "c-0").DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}, []look{{next: time.Minute}, {after: time.Hour, next: time.Minute}}},
		"one that was taken over meanwhile": {func(s *clusterAndHub, c *Controller) {
			c.stored.add("c-0")
			s.codes[s.reservation("b", "u-1", "c-0").Name] = http.StatusConflict
		}, []look{{next: time.Second, freed: "b"}}},
		"one that is gone already": {func(s *clusterAndHub, c *Controller) {
			c.stored.add("c-0")
			s.codes[s.reservation("b", "u-1", "c-0").Name] = http.StatusNotFound
		}, []look{{next: time.Minute, freed: "b"}}},
		"one that may not be freed, and another one": {func(s *clusterAndHub, c *Controller) {
			c.stored.add("c-0")
			s.codes[s.reservation("b", "u-1", "c-0").Name] = http.StatusForbidden
			s.reservation("c", "u-1", "c-0")
		}, []look{{next: time.Minute, freed: "b c", fails: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, clock := startClusterAndHub(t), testingclock.NewFakeClock(time.Now())
			c := s.controller(clock)
			tc.prepare(s, c)
			for i, look := range tc.looks {
				clock.Step(look.after)
				s.freed = nil
				for j := range s.reservations {
					s.reservations[j].ResourceVersion = cmp.Or(look.version, s.reservations[j].ResourceVersion)
				}
				next, err := c.keep(t.Context())
				if next != look.next || (err != nil) != look.fails {
					t.Errorf("look %d: look again after %s, %v; want %s, an error: %t", i, next, err, look.next, look.fails)
				}
				var want []string
				for id := range strings.FieldsSeq(look.freed) {
					want = append(want, v1alpha1.ReservationName("fleet", id))
				}
				if diff := gocmp.Diff(want, s.freed); diff != "" {
					t.Errorf("look %d: freed (-want,+got):\n%s", i, diff)
				}
			}
		})
	}
}

// TestNothingIsFreedBeforeTheMembersOwnIsReserved has the hub be away while a member reserves its id.
func TestNothingIsFreedBeforeTheMembersOwnIsReserved(t *testing.T) {
	t.Parallel()
	s := startClusterAndHub(t)
	c := s.controller(testingclock.NewFakeClock(time.Now()))
	s.claim(v1alpha1.ClaimID, "a", "i-1")
	s.claim(v1alpha1.ClaimClusterSet, "fleet", "c-1")
	s.refuses = http.StatusServiceUnavailable
	if _, err := c.keep(t.Context()); err == nil || s.listed > 0 {
		t.Errorf("got %v, and reservations were listed %d times", err, s.listed)
	}
}

// TestWhatTheClaimOfAMemberSays has the controller look twice, of which the second time brings nothing new.
func TestWhatTheClaimOfAMemberSays(t *testing.T) {
	t.Parallel()
	type conditions = []metav1.Condition
	reserved := conditions{{Type: v1alpha1.ClaimReserved, Status: metav1.ConditionTrue, Reason: "Reserved"}}
	refused := conditions{{Type: v1alpha1.ClaimReserved, Status: metav1.ConditionUnknown, Reason: "RefusedByHub"}}
	for name, tc := range map[string]struct {
		holder     types.UID // the cluster that has the reservation
		withoutID  bool
		refuses    int
		conditions conditions
		status     metav1.ConditionStatus
		reason     string
		events     int
		fails      bool
	}{
		"its own":                                  {holder: "u-1", status: metav1.ConditionTrue, reason: "Reserved"},
		"its own, which it did not know":           {holder: "u-1", conditions: refused, status: metav1.ConditionTrue, reason: "Reserved"},
		"another cluster's":                        {holder: "u-2", status: metav1.ConditionFalse, reason: "TakenByAnother", events: 1},
		"another cluster's, though it was its own": {holder: "u-2", conditions: reserved, status: metav1.ConditionFalse, reason: "TakenByAnother", events: 1},
		"no id":                                {holder: "u-1", withoutID: true, status: metav1.ConditionFalse, reason: "NoID", events: 1},
		"the hub is away":                      {refuses: http.StatusServiceUnavailable, status: metav1.ConditionUnknown, reason: "HubUnreachable", events: 1, fails: true},
		"the hub is away, and has reserved it": {refuses: http.StatusServiceUnavailable, conditions: reserved, status: metav1.ConditionTrue, reason: "Reserved", fails: true},
		"the hub is away, and has refused it":  {refuses: http.StatusServiceUnavailable, conditions: refused, status: metav1.ConditionUnknown, reason: "HubUnreachable", events: 1, fails: true},
		"the hub refuses":                      {refuses: http.StatusForbidden, status: metav1.ConditionUnknown, reason: "RefusedByHub", events: 1, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startClusterAndHub(t)
			c := s.controller(testingclock.NewFakeClock(time.Now()))
			if !tc.withoutID {
				s.claim(v1alpha1.ClaimID, "a", "i-1")
			}
			s.claim(v1alpha1.ClaimClusterSet, "fleet", "c-1")
			s.claims[v1alpha1.ClaimClusterSet].Status.Conditions = slices.Clone(tc.conditions)
			s.reservation("a", tc.holder, "c-1")
			s.refuses = tc.refuses
			for range 2 {
				if _, err := c.keep(t.Context()); (err != nil) != tc.fails {
					t.Errorf("got %v, want an error: %t", err, tc.fails)
				}
			}
			got := meta.FindStatusCondition(s.claims[v1alpha1.ClaimClusterSet].Status.Conditions, v1alpha1.ClaimReserved)
			if got == nil || got.Status != tc.status || got.Reason != tc.reason || s.events != tc.events {
				t.Errorf("the claim says %+v, and there were %d Events; want %s, %s and %d", got, s.events, tc.status, tc.reason, tc.events)
			}
		})
	}
}

func TestOptionsNeedAHostAndAHub(t *testing.T) {
	t.Parallel()
	client, err := hub.NewClient(&rest.Config{Host: "https://hub.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for name, o := range map[string]Options{"neither": {}, "no hub": {Host: &rest.Config{}}, "no host": {Hub: client}} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: the controller was made", name)
		}
	}
}
