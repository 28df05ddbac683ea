// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaims_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/apis/multicluster/install"
	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	typed "github.com/kube-annex/annex/generated/clientset/versioned/typed/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/openapi"
	"github.com/kube-annex/annex/registry/multicluster"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/server/extension/admission"
)

const patience = 30 * time.Second

func TestMain(m *testing.M) { resourcetest.Main(m) }

// cluster serves claims and reservations, has a namespace kube-system, and takes Events.
type cluster struct {
	uid    types.UID
	config *rest.Config
	client *versioned.Clientset
	claims typed.ClusterClaimInterface

	mu       sync.Mutex
	away     bool
	noEvents bool
	// watching, where it is not nil, is closed when claims may be watched.
	watching chan struct{}
	events   []eventsv1.Event
}

func startCluster(t *testing.T, uid types.UID) *cluster {
	t.Helper()
	owner := admission.NewReservationOwner()
	owner.SetAuthorizer(authorizerfactory.NewAlwaysDenyAuthorizer())
	scheme := resource.NewScheme(install.Install)
	server := resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme), Definitions: openapi.GetOpenAPIDefinitions,
		Version: v1alpha1.SchemeGroupVersion, Install: multicluster.Install, Admission: owner,
	})
	c := &cluster{uid: uid}
	var err error
	if c.client, err = versioned.NewForConfig(server.Config); err != nil {
		t.Fatal(err)
	}
	c.claims = c.client.MulticlusterV1alpha1().ClusterClaims()
	c.config = rest.CopyConfig(server.Config)
	c.config.ContentType = runtime.ContentTypeJSON
	c.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return through{next, c} })
	return c
}

// through is how controllers reach a cluster.
type through struct {
	next http.RoundTripper
	*cluster
}

func (t through) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t through) RoundTrip(request *http.Request) (*http.Response, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.away:
		return nil, errors.New("the cluster is away")
	case request.URL.Path == "/api/v1/namespaces/kube-system":
		return answer(http.StatusOK, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: t.uid}})
	case strings.HasPrefix(request.URL.Path, "/apis/events.k8s.io/"):
		if t.noEvents {
			return answer(http.StatusNotFound, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
		}
		var event eventsv1.Event
		if err := json.NewDecoder(request.Body).Decode(&event); err != nil {
			return nil, err
		}
		if problems := validation.NameIsDNSSubdomain(event.Name, false); len(problems) > 0 {
			return nil, errors.New(strings.Join(problems, "; "))
		}
		t.events = append(t.events, event)
		return answer(http.StatusCreated, &event)
	}
	watching := t.watching
	t.mu.Unlock()
	defer t.mu.Lock()
	if watching != nil && request.URL.Query().Get("fieldSelector") != "" {
		select {
		case <-watching:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
	return t.next.RoundTrip(request)
}

func answer(code int, object any) (*http.Response, error) {
	body, err := json.Marshal(object)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}, err
}

func (c *cluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// reasons are what Events were about so far.
func (c *cluster) reasons() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var reasons []string
	for i := range c.events {
		reasons = append(reasons, c.events[i].Reason)
	}
	return strings.Join(reasons, " ")
}

func (c *cluster) create(t *testing.T, name, value string, finalizers ...string) *v1alpha1.ClusterClaim {
	t.Helper()
	claim, err := c.claims.Create(t.Context(), &v1alpha1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}, Spec: v1alpha1.ClusterClaimSpec{Value: value},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func (c *cluster) get(t *testing.T, name string) *v1alpha1.ClusterClaim {
	t.Helper()
	claim, err := c.claims.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func (c *cluster) patch(t *testing.T, name, patch string) {
	t.Helper()
	if _, err := c.claims.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) delete(t *testing.T, name string) {
	t.Helper()
	if err := c.claims.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitCondition waits until a claim says so, about what it is now.
func (c *cluster) waitCondition(t *testing.T, name, kind string, status metav1.ConditionStatus, reason string) *v1alpha1.ClusterClaim {
	t.Helper()
	var claim *v1alpha1.ClusterClaim
	eventually(t, func() (bool, any) {
		var err error
		if claim, err = c.claims.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return false, err
		}
		condition := meta.FindStatusCondition(claim.Status.Conditions, kind)
		return condition != nil && condition.Status == status && condition.Reason == reason &&
			condition.ObservedGeneration == claim.Generation && claim.Status.ObservedGeneration == claim.Generation, claim.Status
	})
	return claim
}

// reservations are what the cluster, as a hub, has by set and id.
func (c *cluster) reservations(t *testing.T) map[string]v1alpha1.ClusterIDReservation {
	t.Helper()
	list, err := c.client.MulticlusterV1alpha1().ClusterIDReservations().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]v1alpha1.ClusterIDReservation{}
	for _, r := range list.Items {
		found[r.Spec.ClusterSet+"/"+r.Spec.ClusterID] = r
	}
	return found
}

// run runs a controller until the returned function is called, or the test ends.
func run(t *testing.T, controller func(context.Context) error) (stop func()) {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2)))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	done := make(chan error, 1)
	go func() { done <- controller(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the controller ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the controller does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, condition func() (bool, any)) {
	t.Helper()
	var last any
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, func(context.Context) (done bool, err error) {
		done, last = condition()
		return done, nil
	})
	if err != nil {
		t.Fatalf("not within %s; at last: %v", patience, last)
	}
}

// stepUntil moves the clock on, a step at a time, until the condition holds, and returns how far.
func stepUntil(t *testing.T, clock *testingclock.FakeClock, step time.Duration, condition func() (bool, any)) time.Duration {
	t.Helper()
	var passed time.Duration
	eventually(t, func() (bool, any) {
		done, last := condition()
		if !done && clock.HasWaiters() {
			clock.Step(step)
			passed += step
		}
		return done, last
	})
	return passed
}
