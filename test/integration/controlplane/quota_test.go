// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	etcdclient "go.etcd.io/etcd/client/v3/kubernetes"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/kube-annex/annex/server/controlplane"
)

var (
	secretsResource = corev1.SchemeGroupVersion.WithResource("secrets")
	leasesResource  = coordinationv1.SchemeGroupVersion.WithResource("leases")
)

// limiting is a namespace with quotas.
type limiting struct {
	namespace string
	client    kubernetes.Interface
	objects   dynamic.Interface
}

func (h *host) limiting(t *testing.T, namespace string) *limiting {
	t.Helper()
	h.emptying().fresh(t, namespace)
	return &limiting{namespace, core(t, h.Admin()), anything(t, h.Admin())}
}

// object is a new one of a kind. Native ones need no content.
func object(of schema.GroupVersionResource, kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(of.GroupVersion().WithKind(kind))
	object.SetGenerateName("o-")
	return object
}

func (l *limiting) create(ctx context.Context, of schema.GroupVersionResource, kind string) error {
	_, err := l.objects.Resource(of).Namespace(l.namespace).Create(ctx, object(of, kind), metav1.CreateOptions{})
	return err
}

// removeAll has no object of a kind left.
func (l *limiting) removeAll(t *testing.T, of schema.GroupVersionResource) {
	t.Helper()
	if err := l.objects.Resource(of).Namespace(l.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (l *limiting) number(t *testing.T, of schema.GroupVersionResource) int {
	t.Helper()
	list, err := l.objects.Resource(of).Namespace(l.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

func amounts(hard map[string]int64) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range hard {
		list[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
	return list
}

// limit makes a quota, or gives it other limits.
func (l *limiting) limit(t *testing.T, name string, hard map[string]int64) {
	t.Helper()
	quotas := l.client.CoreV1().ResourceQuotas(l.namespace)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: amounts(hard)},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			quota, getErr := quotas.Get(t.Context(), name, metav1.GetOptions{})
			if getErr != nil {
				return getErr
			}
			quota.Spec.Hard = amounts(hard)
			_, err := quotas.Update(t.Context(), quota, metav1.UpdateOptions{})
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// waitUsed returns when the quota's status is the given one.
func (l *limiting) waitUsed(t *testing.T, name string, hard, used map[string]int64) {
	t.Helper()
	numbers := func(list corev1.ResourceList) map[string]int64 {
		all := map[string]int64{}
		for name, quantity := range list {
			all[string(name)] = quantity.Value()
		}
		return all
	}
	eventually(t, func() error {
		quota, err := l.client.CoreV1().ResourceQuotas(l.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if diff := cmp.Diff([]map[string]int64{hard, used}, []map[string]int64{numbers(quota.Status.Hard), numbers(quota.Status.Used)}); diff != "" {
			return fmt.Errorf("hard and used of %s (-want,+got):\n%s", name, diff)
		}
		return nil
	})
}

// waitRefused returns when admission knows that there may be no object of the kind.
func (l *limiting) waitRefused(t *testing.T, of schema.GroupVersionResource, kind string) {
	t.Helper()
	eventually(t, func() error {
		_, err := l.objects.Resource(of).Namespace(l.namespace).Create(t.Context(), object(of, kind), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return exceeded(err)
	})
}

// exceeded is nil for what a quota says that has no room left.
func exceeded(err error) error {
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
		return fmt.Errorf("got %w, want 403 exceeded quota", err)
	}
	return nil
}

// TestQuotasHoldAgainstManyCreators has 50 clients create objects of a native and a custom kind at the same time, of which quotas allow
// fewer, and then has all go again.
func TestQuotasHoldAgainstManyCreators(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	createWidgetDefinition(t, h.Admin())
	l := h.limiting(t, "crowded")
	// Each has a kind of which it allows no more, by which it is seen that it is known to admission.
	one := map[string]int64{"secrets": 10, "count/widgets.example.com": 12, "count/leases.coordination.k8s.io": 0}
	two := map[string]int64{"count/secrets": 15, "count/widgets.example.com": 7, "count/serviceaccounts": 1}
	l.limit(t, "one", one)
	eventually(t, func() error {
		_, err := l.client.CoreV1().ServiceAccounts(l.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	l.limit(t, "two", two)
	l.waitRefused(t, leasesResource, "Lease")
	l.waitRefused(t, corev1.SchemeGroupVersion.WithResource("serviceaccounts"), "ServiceAccount")
	for round := range 2 {
		crowd(t, []*limiting{l}, 25, map[schema.GroupVersionResource]string{secretsResource: "Secret", widgets: "Widget"})
		for of, want := range map[schema.GroupVersionResource]int{secretsResource: 10, widgets: 7} {
			if got := l.number(t, of); got != want {
				t.Errorf("round %d: there are %d %s, want %d", round, got, of.Resource, want)
			}
		}
		l.removeAll(t, secretsResource)
		l.removeAll(t, widgets)
		l.waitUsed(t, "one", one, map[string]int64{"secrets": 0, "count/widgets.example.com": 0, "count/leases.coordination.k8s.io": 0})
		l.waitUsed(t, "two", two, map[string]int64{"count/secrets": 0, "count/widgets.example.com": 0, "count/serviceaccounts": 1})
	}
}

// crowd has many clients create objects of each of the kinds, each until it is refused, alternating between the replicas.
func crowd(t *testing.T, replicas []*limiting, creators int, kinds map[schema.GroupVersionResource]string) {
	t.Helper()
	var running sync.WaitGroup
	var created atomic.Int64
	for of, kind := range kinds {
		for i := range creators {
			running.Go(func() {
				for try := 0; ; try++ {
					err := replicas[(i+try)%len(replicas)].create(t.Context(), of, kind)
					if err == nil {
						created.Add(1)
						continue
					}
					if err := exceeded(err); err != nil {
						t.Errorf("creating %s: %v", of.Resource, err)
					}
					return
				}
			})
		}
	}
	running.Wait()
	if created.Load() == 0 {
		t.Error("nothing could be created")
	}
}

// TestQuotasHoldInReplicas has two control planes on one store charge the same quotas.
func TestQuotasHoldInReplicas(t *testing.T) {
	t.Parallel()
	var both []*limiting
	for _, r := range startReplicas(t, "one", "two") {
		both = append(both, &limiting{"crowded", r.client, dynamic.New(r.client.CoreV1().RESTClient())})
	}
	l := both[0]
	if _, err := l.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Each has a kind of which it allows no more, by which it is seen that a replica knows it.
	one := map[string]int64{"secrets": 30, "count/roles.rbac.authorization.k8s.io": 0}
	two := map[string]int64{"count/leases.coordination.k8s.io": 12, "resourcequotas": 2}
	l.limit(t, "one", one)
	l.limit(t, "two", two)
	for _, replica := range both {
		replica.waitRefused(t, schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, "Role")
		replica.waitRefused(t, corev1.SchemeGroupVersion.WithResource("resourcequotas"), "ResourceQuota")
	}
	for round := range 2 {
		crowd(t, both, 30, map[schema.GroupVersionResource]string{secretsResource: "Secret", leasesResource: "Lease"})
		for of, want := range map[schema.GroupVersionResource]int{secretsResource: 30, leasesResource: 12} {
			if got := l.number(t, of); got != want {
				t.Errorf("round %d: there are %d %s, want %d", round, got, of.Resource, want)
			}
			l.removeAll(t, of)
		}
		l.waitUsed(t, "one", one, map[string]int64{"secrets": 0, "count/roles.rbac.authorization.k8s.io": 0})
		l.waitUsed(t, "two", two, map[string]int64{"count/leases.coordination.k8s.io": 0, "resourcequotas": 2})
	}
}

func TestQuotasAreKeptRight(t *testing.T) {
	t.Parallel()
	h := startHost(t, func(o *controlplane.Options) { o.QuotaSyncPeriod = 2 * time.Second })
	t.Run("lowered below what is used", func(t *testing.T) {
		t.Parallel()
		l := h.limiting(t, "lowered")
		l.limit(t, "quota", map[string]int64{"secrets": 3})
		l.waitUsed(t, "quota", map[string]int64{"secrets": 3}, map[string]int64{"secrets": 0})
		for range 3 {
			if err := l.create(t.Context(), secretsResource, "Secret"); err != nil {
				t.Fatal(err)
			}
		}
		l.limit(t, "quota", map[string]int64{"secrets": 1})
		l.waitUsed(t, "quota", map[string]int64{"secrets": 1}, map[string]int64{"secrets": 3})
		eventually(t, func() error { return exceeded(l.create(t.Context(), secretsResource, "Secret")) })
		l.removeAll(t, secretsResource)
		l.waitUsed(t, "quota", map[string]int64{"secrets": 1}, map[string]int64{"secrets": 0})
		eventually(t, func() error { return l.create(t.Context(), secretsResource, "Secret") })
	})
	t.Run("what was there before", func(t *testing.T) {
		t.Parallel()
		l := h.limiting(t, "before")
		for range 3 {
			if err := l.create(t.Context(), leasesResource, "Lease"); err != nil {
				t.Fatal(err)
			}
		}
		// What nobody counts here has no number, as in a cluster whose servers do not have the kind.
		hard := map[string]int64{"count/leases.coordination.k8s.io": 5, "resourcequotas": 1, "pods": 4, "count/things.example.com": 1, "count/events": 1}
		l.limit(t, "quota", hard)
		l.waitUsed(t, "quota", hard, map[string]int64{"count/leases.coordination.k8s.io": 3, "resourcequotas": 1})
	})
	t.Run("a status that is wrong", func(t *testing.T) {
		t.Parallel()
		l := h.limiting(t, "wrong")
		l.limit(t, "quota", map[string]int64{"secrets": 3})
		l.waitUsed(t, "quota", map[string]int64{"secrets": 3}, map[string]int64{"secrets": 0})
		if err := l.create(t.Context(), secretsResource, "Secret"); err != nil {
			t.Fatal(err)
		}
		for _, used := range []int64{3, 0} { // charged for what was not stored, and not charged at all
			if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
				quota, err := l.client.CoreV1().ResourceQuotas(l.namespace).Get(t.Context(), "quota", metav1.GetOptions{})
				if err != nil {
					return err
				}
				quota.Status.Used = amounts(map[string]int64{"secrets": used})
				_, err = l.client.CoreV1().ResourceQuotas(l.namespace).UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			l.waitUsed(t, "quota", map[string]int64{"secrets": 3}, map[string]int64{"secrets": 1})
		}
	})
	t.Run("scopes", func(t *testing.T) {
		t.Parallel()
		l := h.limiting(t, "scopes")
		quota := func(name string, hard map[string]int64) *corev1.ResourceQuota {
			return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{
				Hard: amounts(hard), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating},
			}}
		}
		quotas := l.client.CoreV1().ResourceQuotas(l.namespace)
		if _, err := quotas.Create(t.Context(), quota("refused", map[string]int64{"secrets": 0}), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("secrets in a scope of pods: got %v, want 422", err)
		}
		if _, err := quotas.Create(t.Context(), quota("idle", map[string]int64{"count/secrets": 0, "pods": 0}), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.waitUsed(t, "idle", map[string]int64{"count/secrets": 0, "pods": 0}, map[string]int64{"count/secrets": 0})
		if err := l.create(t.Context(), secretsResource, "Secret"); err != nil {
			t.Errorf("no secret is in a scope of pods, so none is limited: %v", err)
		}
	})
	t.Run("an object that was charged and not stored", func(t *testing.T) {
		t.Parallel()
		l := h.limiting(t, "taken")
		l.limit(t, "quota", map[string]int64{"secrets": 2})
		l.waitUsed(t, "quota", map[string]int64{"secrets": 2}, map[string]int64{"secrets": 0})
		named := object(secretsResource, "Secret")
		named.SetGenerateName("")
		named.SetName("taken")
		create := func() error {
			_, err := l.objects.Resource(secretsResource).Namespace(l.namespace).Create(t.Context(), named, metav1.CreateOptions{})
			return err
		}
		if err := create(); err != nil {
			t.Fatal(err)
		}
		if err := create(); !apierrors.IsAlreadyExists(err) {
			t.Fatalf("got %v, want 409 AlreadyExists", err)
		}
		l.waitUsed(t, "quota", map[string]int64{"secrets": 2}, map[string]int64{"secrets": 1})
	})
}

// heldStore holds back the creation of the objects of a name.
type heldStore struct {
	etcdclient.Interface
	name     string
	released chan struct{}
}

func (s heldStore) OptimisticPut(ctx context.Context, key string, value []byte, expected int64, options etcdclient.PutOptions) (etcdclient.PutResponse, error) {
	if strings.HasSuffix(key, "/"+s.name) {
		select {
		case <-s.released:
		case <-ctx.Done():
		}
	}
	return s.Interface.OptimisticPut(ctx, key, value, expected, options)
}

// TestQuotasKeepWhatIsOnItsWay has a creation take long after it was charged, while other objects come and go.
func TestQuotasKeepWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	held := heldStore{name: "held", released: make(chan struct{})}
	var h *host
	h = newHost(t, func(*controlplane.Options) {
		held.Interface = h.Backend.Client.Kubernetes
		h.Backend.Client.Kubernetes = held
	})
	h.Start()
	l := h.limiting(t, "slow")
	// There is a kind of which it allows no more, by which it is seen that it is known to admission.
	hard := map[string]int64{"secrets": 9, "count/leases.coordination.k8s.io": 0}
	waitUsed := func(secrets int64) {
		t.Helper()
		l.waitUsed(t, "quota", hard, map[string]int64{"secrets": secrets, "count/leases.coordination.k8s.io": 0})
	}
	l.limit(t, "quota", hard)
	l.waitRefused(t, leasesResource, "Lease")
	for range 8 {
		if err := l.create(t.Context(), secretsResource, "Secret"); err != nil {
			t.Fatal(err)
		}
	}
	slow := object(secretsResource, "Secret")
	slow.SetGenerateName("")
	slow.SetName(held.name)
	created := make(chan error, 1)
	go func() {
		_, err := l.objects.Resource(secretsResource).Namespace(l.namespace).Create(t.Context(), slow, metav1.CreateOptions{})
		created <- err
	}()
	waitUsed(9)
	// Each deletion has the controller count, a while later.
	secrets := l.objects.Resource(secretsResource).Namespace(l.namespace)
	all, err := secrets.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, secret := range all.Items {
		if err := secrets.Delete(t.Context(), secret.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		waitUsed(int64(8 - i))
	}
	for range 8 {
		if err := l.create(t.Context(), secretsResource, "Secret"); err != nil {
			t.Fatal(err)
		}
	}
	if err := exceeded(l.create(t.Context(), secretsResource, "Secret")); err != nil {
		t.Errorf("one more than the quota allows: %v", err)
	}
	close(held.released)
	if err := <-created; err != nil {
		t.Errorf("the creation that was charged first: %v", err)
	}
	if got := l.number(t, secretsResource); got != 9 {
		t.Errorf("there are %d secrets, want 9", got)
	}
	waitUsed(9)
}

// TestQuotaForAKindThatIsNotThereYet limits a custom kind before it is defined, and after it was deleted and defined again.
func TestQuotaForAKindThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	l := h.limiting(t, "early")
	hard := map[string]int64{"count/widgets.example.com": 2}
	l.limit(t, "quota", hard)
	l.waitUsed(t, "quota", hard, map[string]int64{})
	for range 2 {
		createWidgetDefinition(t, h.Admin())
		eventually(t, func() error {
			err := l.create(t.Context(), widgets, "Widget")
			if exceeded(err) == nil {
				return nil
			}
			if err == nil {
				return fmt.Errorf("one more was created")
			}
			return err
		})
		if got := l.number(t, widgets); got != 2 {
			t.Errorf("there are %d widgets, want 2", got)
		}
		l.waitUsed(t, "quota", hard, map[string]int64{"count/widgets.example.com": 2})
		definitions := definitions(t, h.Admin()).ApiextensionsV1().CustomResourceDefinitions()
		if err := definitions.Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if _, err := definitions.Get(t.Context(), "widgets.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the definition is still there: %w", err)
			}
			return nil
		})
	}
}

func TestNoQuotasWithoutTheKind(t *testing.T) {
	t.Parallel()
	h := startHost(t, func(o *controlplane.Options) {
		o.DisabledResources = []schema.GroupResource{{Resource: "resourcequotas"}}
	})
	if err := h.limiting(t, "free").create(t.Context(), secretsResource, "Secret"); err != nil {
		t.Error(err)
	}
}
