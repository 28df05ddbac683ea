// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const period = 5 * time.Minute

// counting is a controller of one quota of secrets, whose store and clock the test has.
type counting struct {
	*Controller
	t       *testing.T
	now     time.Time
	version int
	secrets int
	quota   *corev1.ResourceQuota
	// beforeWrite happens before the next write of the controller.
	beforeWrite func()
	// failWrites is the error of writes, if there is one.
	failWrites error
	// informed has the informer know the quota as it is.
	informed func()
}

func (c *counting) next() string {
	c.version++
	return strconv.Itoa(c.version)
}

// charge is what admission does.
func (c *counting) charge(number int64) {
	c.quota = c.quota.DeepCopy()
	for name, used := range c.quota.Status.Used {
		used.Add(*resource.NewQuantity(number, resource.DecimalSI))
		c.quota.Status.Used[name] = used
	}
	c.quota.ResourceVersion = c.next()
	c.informed()
	c.changed(nil, c.quota)
}

// remove deletes a secret and returns the event.
func (c *counting) remove() *metav1.PartialObjectMetadata {
	c.secrets--
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", ResourceVersion: c.next()}}
}

func (c *counting) tell(deleted *metav1.PartialObjectMetadata) {
	c.observe(corev1.Resource("secrets"), corev1.SchemeGroupVersion.WithResource("secrets"), watch.Deleted, deleted)
}

// want has the controller count, and checks both numbers.
func (c *counting) want(when string, used int64) {
	c.t.Helper()
	c.informed()
	if _, err := c.reconcile(c.t.Context(), "ns/quota"); err != nil {
		c.t.Fatal(err)
	}
	c.informed()
	for name, amount := range c.quota.Status.Used {
		if amount.Value() != used {
			c.t.Errorf("%s: %s are used of %s, want %d", when, amount.String(), name, used)
		}
	}
	if len(c.quota.Status.Used) != 2 {
		c.t.Errorf("%s: the status says %v", when, c.quota.Status.Used)
	}
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	c := &counting{t: t, now: time.Unix(0, 0), version: 1}
	limit := corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse("9"), "count/secrets": resource.MustParse("9")}
	c.quota = &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "quota", UID: "quota", ResourceVersion: "1"}, Spec: corev1.ResourceQuotaSpec{Hard: limit},
	}
	client := fake.NewClientset()
	client.PrependReactor("update", "resourcequotas", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if c.failWrites != nil {
			return true, nil, c.failWrites
		}
		if do := c.beforeWrite; do != nil {
			c.beforeWrite = nil
			do()
		}
		quota := action.(clienttesting.UpdateAction).GetObject().(*corev1.ResourceQuota).DeepCopy()
		if quota.ResourceVersion != c.quota.ResourceVersion {
			return true, nil, apierrors.NewConflict(corev1.Resource("resourcequotas"), quota.Name, nil)
		}
		quota.ResourceVersion = c.next()
		c.quota = quota
		return true, quota.DeepCopy(), nil
	})
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := metadatafake.NewSimpleMetadataClient(scheme)
	objects.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(c.version)}}
		for range c.secrets {
			list.Items = append(list.Items, runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}})
		}
		return true, list, nil
	})
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	c.Controller = &Controller{
		lister: listers.NewResourceQuotaLister(store), quotas: client.CoreV1(), objects: metadata.Interface(objects),
		known: newKinds(nil, time.Now), charges: newCharges(period, func() time.Time { return c.now }),
		following: newFollowing(func(context.Context, schema.GroupResource, schema.GroupVersionResource) {}),
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	c.known.answers[corev1.Resource("secrets")] = answer{found: true, resource: corev1.SchemeGroupVersion.WithResource("secrets")}
	t.Cleanup(c.queue.ShutDown)
	t.Cleanup(c.following.wait)
	c.informed = func() {
		if err := store.Update(c.quota.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	c.informed()
	return c
}

func TestNumbersGoDownForDeletionsAndAfterThePeriod(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	c.secrets = 1
	c.want("before the quota", 1)
	c.charge(1)
	c.now = c.now.Add(time.Minute)
	c.want("one is on its way for a minute", 2)
	c.charge(1)
	c.secrets++
	c.want("another one was charged and stored", 3)
	c.tell(c.remove())
	c.want("that one was deleted", 2)
	c.want("and it is counted again", 2)
	c.secrets++
	c.want("the one on its way has arrived", 2)
	late := c.remove()
	c.now = c.now.Add(2 * period)
	c.want("a deletion that nobody told of yet", 1)
	c.charge(1)
	c.tell(late)
	c.want("its event arrives while the next one is on its way", 2)
	c.now = c.now.Add(period - time.Second)
	c.want("just before the period has passed", 2)
	c.now = c.now.Add(time.Second)
	c.want("charged and never stored", 1)
	c.secrets = 3
	c.want("stored without being charged", 3)
	deleted := c.remove()
	c.secrets = 1
	c.want("gone where nobody watched, without charges", 1)
	c.tell(deleted)
	c.want("the event of one of these arrives after all", 1)
}

func TestDeletionsOutliveAConflict(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	c.want("at first", 0)
	c.charge(3)
	c.secrets = 2
	c.tell(c.remove())
	c.beforeWrite = func() { c.charge(1) }
	c.want("one was deleted, and admission charges meanwhile", 4)
	c.want("after the conflict", 3)
}

func TestDeletionsAreSubtractedAlsoWhenTheObjectsWereCountedBefore(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	c.want("at first", 0)
	c.charge(2)
	c.secrets = 2
	first, second := c.remove(), c.remove()
	c.want("both were deleted, but no event has arrived", 2)
	c.tell(first)
	c.want("the first event has arrived", 1)
	c.tell(second)
	c.want("both events have arrived", 0)
}

func TestDeletionsThatWereCountedAreNotSubtracted(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	c.secrets = 3
	c.want("at first", 3)
	first, second := c.remove(), c.remove()
	c.secrets++ // stored without being charged
	c.tell(first)
	c.want("two were deleted and one was stored, of which one event has arrived", 2)
	c.charge(1)
	c.tell(second)
	c.want("the other event arrives while one is on its way", 3)
}
