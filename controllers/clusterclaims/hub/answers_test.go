// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/restconfig/restconfigtest"
)

func TestHubClientRejectsRedirects(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		url, target := restconfigtest.Redirect(t, code)
		client, err := NewClient(&rest.Config{Host: url, BearerToken: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		_, listed := client.Of(t.Context(), "u")
		reserved := client.Reserve(t.Context(), Membership{Set: "fleet", ID: "a", Cluster: "u", Claim: "c"}, false)
		freed := client.Free(t.Context(), &v1alpha1.ClusterIDReservation{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		for what, err := range map[string]error{"list": listed, "reserve": reserved, "free": freed} {
			if err == nil || !strings.Contains(err.Error(), "redirect to "+`"`+target) {
				t.Errorf("%d, %s: got %v, want an error that names the redirect", code, what, err)
			}
		}
	}
}

func TestOnlyTheReservationThatWasAskedForIsOne(t *testing.T) {
	t.Parallel()
	good := func() *v1alpha1.ClusterIDReservation {
		return &v1alpha1.ClusterIDReservation{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterIDReservation"},
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ReservationName("fleet", "a")},
			Spec:       v1alpha1.ClusterIDReservationSpec{ClusterSet: "fleet", ClusterID: "a", ClusterUID: "u", ClaimUID: "c"},
			Status:     v1alpha1.ClusterIDReservationStatus{Owner: "east"},
		}
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.ClusterIDReservation)
		fine   bool
	}{
		"the one":               {func(*v1alpha1.ClusterIDReservation) {}, true},
		"an empty object":       {func(r *v1alpha1.ClusterIDReservation) { *r = v1alpha1.ClusterIDReservation{} }, false},
		"another name":          {func(r *v1alpha1.ClusterIDReservation) { r.Name = v1alpha1.ReservationName("fleet", "b") }, false},
		"another set":           {func(r *v1alpha1.ClusterIDReservation) { r.Spec.ClusterSet = "other" }, false},
		"another id":            {func(r *v1alpha1.ClusterIDReservation) { r.Spec.ClusterID = "b" }, false},
		"another cluster":       {func(r *v1alpha1.ClusterIDReservation) { r.Spec.ClusterUID = "v" }, false},
		"another claim":         {func(r *v1alpha1.ClusterIDReservation) { r.Spec.ClaimUID = "d" }, false},
		"without an owner":      {func(r *v1alpha1.ClusterIDReservation) { r.Status.Owner = "" }, false},
		"taken over by another": {func(r *v1alpha1.ClusterIDReservation) { r.Annotations = map[string]string{"annex.io/claim-uid": "d"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := good()
			tc.change(answer)
			body, err := json.Marshal(answer)
			if name == "an empty object" {
				body = []byte("{}")
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, dryRun := range []bool{false, true} {
				client, _ := answering(t, http.StatusCreated, string(body))
				err := client.Reserve(t.Context(), Membership{Set: "fleet", ID: "a", Cluster: "u", Claim: "c"}, dryRun)
				away := (*AwayError)(nil)
				if tc.fine != (err == nil) || !tc.fine && (errors.As(err, &away) || !strings.Contains(err.Error(), "not the reservation that was asked for")) {
					t.Errorf("dry run %t: got %v, fine is %t", dryRun, err, tc.fine)
				}
			}
		})
	}
}

func TestReservationsOfOtherClustersAreNotListed(t *testing.T) {
	t.Parallel()
	client, _ := answering(t, http.StatusOK, `{"kind":"ClusterIDReservationList","apiVersion":"multicluster.k8s.io/v1alpha1","items":[{"metadata":{"name":"`+
		v1alpha1.ReservationName("fleet", "a")+`"},"spec":{"clusterSet":"fleet","clusterID":"a","clusterUID":"other","claimUID":"c"}}]}`)
	if list, err := client.Of(t.Context(), "u"); err == nil || len(list) > 0 {
		t.Errorf("got %v, %v; want an error: the controller frees what is listed", list, err)
	}
}

func TestTheHubsAnswersAreLimited(t *testing.T) {
	t.Parallel()
	const all, most = 64 << 20, 8 << 20 // most leaves room for what is on the way
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		piece := []byte(strings.Repeat(" ", 64<<10))
		for sent.Load() < all {
			n, err := w.Write(piece)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	client, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	_, err = client.Of(t.Context(), "u")
	if got := sent.Load(); err == nil || !strings.Contains(err.Error(), "sends more than") || got > most {
		t.Errorf("got %v after %d bytes, want an error after at most %d", err, got, most)
	}
}
