// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/clusterclaims/hub"
)

// TestAJoinBetweenTwoReads has the cluster join after the controller has found that it is no member, and before it reads the
// reservations: by then the watch has told it of the claim. What the claim holds must stay.
func TestAJoinBetweenTwoReads(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		seen  types.UID // the claim that the watch tells of while the claim is read
		known types.UID // one that was known before
		want  int32
	}{
		"it has joined meanwhile": {seen: "c-1", want: 0},
		"it had left before":      {known: "c-1", want: 1},
		"nobody has seen it":      {want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c *Controller
			var freed atomic.Int32
			serve := func(w http.ResponseWriter, code int, object any) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				if err := json.NewEncoder(w).Encode(object); err != nil {
					t.Error(err)
				}
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/namespaces/kube-system"):
					serve(w, http.StatusOK, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{UID: "u-1"}})
				case strings.Contains(r.URL.Path, "/clusterclaims/"):
					if tc.seen != "" {
						c.stored.add(tc.seen)
					}
					serve(w, http.StatusNotFound, &metav1.Status{
						TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
					})
				case r.Method == http.MethodDelete:
					freed.Add(1)
					serve(w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
				default:
					serve(w, http.StatusOK, &v1alpha1.ClusterIDReservationList{
						TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterIDReservationList"},
						Items: []v1alpha1.ClusterIDReservation{{
							ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ReservationName("fleet", "a"), UID: "r-1", ResourceVersion: "1"},
							Spec:       v1alpha1.ClusterIDReservationSpec{ClusterSet: "fleet", ClusterID: "a", ClusterUID: "u-1", ClaimUID: "c-1"},
						}},
					})
				}
			}))
			t.Cleanup(server.Close)
			client, err := hub.NewClient(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			config := &rest.Config{Host: server.URL}
			config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
			if c, err = New(Options{Host: config, Hub: client}); err != nil {
				t.Fatal(err)
			}
			if tc.known != "" {
				c.stored.add(tc.known)
			}
			if _, err := c.keep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if freed.Load() != tc.want {
				t.Errorf("%d reservations were freed, want %d", freed.Load(), tc.want)
			}
		})
	}
}

func TestClaimsAreForgottenWithTheirReservations(t *testing.T) {
	t.Parallel()
	var s storedClaims
	for _, uid := range []types.UID{"gone", "gone-but-reserved", "there"} {
		s.add(uid)
	}
	gone := s.all()
	delete(gone, "there")
	s.add("new")
	s.forget(gone, []v1alpha1.ClusterIDReservation{{Spec: v1alpha1.ClusterIDReservationSpec{ClaimUID: "gone-but-reserved"}}})
	left := s.all()
	for uid, want := range map[types.UID]bool{"gone": false, "gone-but-reserved": true, "there": true, "new": true} {
		if left.has(uid) != want {
			t.Errorf("%s is remembered: %t, want %t", uid, left.has(uid), want)
		}
	}
}
