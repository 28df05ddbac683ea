// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/install"
	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/clusterclaims/hub"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	typed "github.com/kube-annex/annex/generated/clientset/versioned/typed/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/openapi"
	"github.com/kube-annex/annex/registry/multicluster"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/server/extension/admission"
)

func TestMain(m *testing.M) { resourcetest.Main(m) }

// startHub serves reservations, which users change and delete as on a real hub: only their own.
func startHub(t *testing.T) *resourcetest.Server {
	t.Helper()
	owner := admission.NewReservationOwner()
	owner.SetAuthorizer(authorizerfactory.NewAlwaysDenyAuthorizer())
	scheme := resource.NewScheme(install.Install)
	return resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme), Definitions: openapi.GetOpenAPIDefinitions,
		Version: v1alpha1.SchemeGroupVersion, Install: multicluster.Install, Admission: owner,
	})
}

// configAs is how a user reaches a server.
func configAs(server *resourcetest.Server, user string) *rest.Config {
	config := rest.CopyConfig(server.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return actAs{next, user} })
	return config
}

type actAs struct {
	next http.RoundTripper
	user string
}

func (a actAs) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set(resourcetest.UserHeader, a.user)
	return a.next.RoundTrip(request)
}

func (a actAs) WrappedRoundTripper() http.RoundTripper { return a.next }

func clientOf(t *testing.T, config *rest.Config) *hub.Client {
	t.Helper()
	client, err := hub.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func reservationsOn(t *testing.T, server *resourcetest.Server, user string) typed.ClusterIDReservationInterface {
	t.Helper()
	client, err := versioned.NewForConfig(configAs(server, user))
	if err != nil {
		t.Fatal(err)
	}
	return client.MulticlusterV1alpha1().ClusterIDReservations()
}

func member(set, id, cluster, claim string) hub.Membership {
	return hub.Membership{Set: set, ID: id, Cluster: types.UID(cluster), Claim: types.UID(claim)}
}

func only(t *testing.T, client *hub.Client, cluster types.UID) *v1alpha1.ClusterIDReservation {
	t.Helper()
	list, err := client.Of(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("cluster %s has %d reservations, want 1", cluster, len(list))
	}
	return &list[0]
}

func TestOneClusterHasAnID(t *testing.T) {
	t.Parallel()
	server := startHub(t)
	one, two := clientOf(t, configAs(server, "east")), clientOf(t, configAs(server, "west"))
	if err := one.Reserve(t.Context(), member("fleet", "a", "u-1", "c-1"), true); err != nil {
		t.Fatal(err)
	}
	if list, err := one.Of(t.Context(), "u-1"); err != nil || len(list) != 0 {
		t.Fatalf("a dry run left %v, %v", list, err)
	}
	for range 2 { // the second time nothing happens
		if err := one.Reserve(t.Context(), member("fleet", "a", "u-1", "c-1"), false); err != nil {
			t.Fatal(err)
		}
	}
	first := only(t, one, "u-1")
	for _, dryRun := range []bool{false, true} {
		err := two.Reserve(t.Context(), member("fleet", "a", "u-2", "c-2"), dryRun)
		if held := (*hub.HeldError)(nil); !errors.As(err, &held) || held.Owner != "east" || held.Cluster != "u-1" {
			t.Errorf("another cluster, dry run %t: got %v, want a HeldError with the holder", dryRun, err)
		}
	}
	if err := two.Reserve(t.Context(), member("other", "a", "u-2", "c-2"), false); err != nil {
		t.Errorf("the same id in another set: %v", err)
	}
	if err := one.Free(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := one.Free(t.Context(), first); err != nil {
		t.Errorf("freeing it twice: %v", err)
	}
	if err := two.Reserve(t.Context(), member("fleet", "a", "u-2", "c-2"), false); err != nil {
		t.Errorf("after the first has left: %v", err)
	}
}

func TestRejoiningTakesOver(t *testing.T) {
	t.Parallel()
	server := startHub(t)
	client := clientOf(t, configAs(server, "east"))
	if err := client.Reserve(t.Context(), member("fleet", "a", "u-1", "c-1"), false); err != nil {
		t.Fatal(err)
	}
	former := only(t, client, "u-1")
	if err := client.Reserve(t.Context(), member("fleet", "a", "u-1", "c-2"), true); err != nil {
		t.Fatal(err)
	}
	if now := only(t, client, "u-1"); now.ResourceVersion != former.ResourceVersion {
		t.Error("a dry run has changed the reservation")
	}
	if err := client.Reserve(t.Context(), member("fleet", "a", "u-1", "c-2"), false); err != nil {
		t.Fatal(err)
	}
	now := only(t, client, "u-1")
	if now.UID != former.UID || now.HoldingClaim() != "c-2" || now.Spec.ClaimUID != "c-1" {
		t.Errorf("uid %s, held for %s, made for %s; want %s, c-2, c-1", now.UID, now.HoldingClaim(), now.Spec.ClaimUID, former.UID)
	}
	// Whoever still wants to free what the former membership held is late.
	if err := client.Free(t.Context(), former); !errors.Is(err, hub.ErrChanged) {
		t.Errorf("freeing what was taken over: %v, want ErrChanged", err)
	}
	if only(t, client, "u-1").UID != now.UID {
		t.Error("the reservation was freed")
	}
}

func TestTakingOverIsForTheOwner(t *testing.T) {
	t.Parallel()
	server := startHub(t)
	if err := clientOf(t, configAs(server, "east")).Reserve(t.Context(), member("fleet", "a", "u-1", "c-1"), false); err != nil {
		t.Fatal(err)
	}
	// A copy of the cluster has the same uid, and credentials of its own.
	for _, dryRun := range []bool{false, true} {
		err := clientOf(t, configAs(server, "copy")).Reserve(t.Context(), member("fleet", "a", "u-1", "c-2"), dryRun)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"east"`) {
			t.Errorf("dry run %t: got %v, want a refusal that names the owner", dryRun, err)
		}
	}
}

func TestWhatIsBeingDeletedIsNotTakenOver(t *testing.T) {
	t.Parallel()
	server := startHub(t)
	reservations := reservationsOn(t, server, "east")
	name := v1alpha1.ReservationName("fleet", "a")
	if _, err := reservations.Create(t.Context(), &v1alpha1.ClusterIDReservation{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"annex.test/hold"}},
		Spec:       v1alpha1.ClusterIDReservationSpec{ClusterSet: "fleet", ClusterID: "a", ClusterUID: "u-1", ClaimUID: "c-1"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := reservations.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err := clientOf(t, configAs(server, "east")).Reserve(t.Context(), member("fleet", "a", "u-1", "c-1"), false)
	if err == nil || !strings.Contains(err.Error(), "being deleted there") {
		t.Errorf("got %v, want that it is being deleted", err)
	}
}

// TestRacingClusters has clusters want the same id at a time: one gets it, and it stays theirs while they take it over again and again.
func TestRacingClusters(t *testing.T) {
	t.Parallel()
	server := startHub(t)
	const clusters, rounds = 6, 8
	for round := range rounds {
		id := fmt.Sprintf("id-%d", round)
		var winners atomic.Int32
		var racing sync.WaitGroup
		for n := range clusters {
			client := clientOf(t, configAs(server, fmt.Sprintf("user-%d", n)))
			cluster := fmt.Sprintf("u-%d", n)
			racing.Go(func() {
				var mine sync.WaitGroup
				var got atomic.Bool
				// Two requests on the same cluster may be joining; neither must open the door for another cluster.
				for claim := range 2 {
					mine.Go(func() {
						for attempt := range 4 {
							err := client.Reserve(t.Context(), member("fleet", id, cluster, fmt.Sprintf("c-%d-%d", claim, attempt)), false)
							held := (*hub.HeldError)(nil)
							switch {
							case err == nil:
								got.Store(true)
							case errors.As(err, &held) && got.Load():
								t.Errorf("round %d: the cluster had the id and lost it: %v", round, err)
							case !errors.As(err, &held) && !strings.Contains(err.Error(), "keeps changing"):
								t.Error(err)
							}
						}
					})
				}
				mine.Wait()
				if got.Load() {
					winners.Add(1)
				}
			})
		}
		racing.Wait()
		if winners.Load() != 1 {
			t.Errorf("round %d: %d clusters have the id", round, winners.Load())
		}
	}
}
