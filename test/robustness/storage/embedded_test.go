// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// smallest is the smallest quota that the embedded etcd takes, in bytes.
const smallest = 16 << 20

// TestEmbedded has a control plane with its etcd inside, one fault after the other.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	s := newControlPlane(t, fmt.Sprintf("--etcd-quota-bytes=%d", smallest))
	s.start(t)
	for _, tc := range []struct {
		name    string
		options traffic.Options
		run     func(*testing.T, row, *server, *traffic.Load)
	}{
		{"an object cannot be decoded", traffic.Options{}, undecodable},
		{"compaction during a paged list", traffic.Options{}, compactedPages},
		{"the disk is slow", traffic.Options{}, slowDisk},
		{"no space", traffic.Options{Clients: 4, Keys: 4, Padding: 100_000}, noSpace},
		{"the log is torn", traffic.Options{}, tornLog},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRow(t)
			l := r.work(t, tc.options, s)
			l.WaitFor(t, 50)
			tc.run(t, r, s, l)
			l.Recovered(t, recovery)
			l.Verdict(t)
		})
	}
}

// slowDisk has each sync take long. Everything goes on, slower.
func slowDisk(t *testing.T, _ row, s *server, l *traffic.Load) {
	for _, delay := range []int{100, 400} {
		s.trouble(t, fmt.Sprintf("slow %d", delay))
		began, before := time.Now(), l.Writes()
		l.WaitFor(t, times(5, 300))
		t.Logf("with %d ms for each sync: %.0f writes a second", delay, float64(l.Writes()-before)/time.Since(began).Seconds())
		poll.Eventually(t, recovery, "the server is not healthy", func(ctx context.Context) error {
			return s.client(t).RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		})
		s.trouble(t, "")
	}
	if failed := l.Failed(); len(failed) > 0 {
		t.Errorf("%d requests failed, the first: %s", len(failed), failed[0])
	}
}

// noSpace writes several times what fits. The server makes room by itself.
func noSpace(t *testing.T, _ row, _ *server, l *traffic.Load) {
	before := len(l.Failed())
	refused := func() int {
		return strings.Count(strings.Join(l.Failed()[before:], "\n"), "the store is full: etcd has reached its space quota")
	}
	for range times(1, 10) {
		had := refused()
		poll.Eventually(t, 2*startTimeout, "the store was not full", func(context.Context) error {
			if refused() == had {
				return errors.New("nobody was told")
			}
			return nil
		})
		t.Logf("%d refusals in %d writes; clients recovered after %s", refused(), l.Writes(), l.Recovered(t, recovery))
	}
	for _, failed := range l.Failed()[before:] {
		wantText(t, "an error while there is no room", failed, "the store is full")
	}
}

// undecodable puts garbage in the place of an object. It alone is out of reach, until it is deleted.
func undecodable(t *testing.T, r row, s *server, l *traffic.Load) {
	name := fmt.Sprintf("broken-%x", r.seed)
	maps := func() *kubernetes.Clientset { return s.client(t) }
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := maps().CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	key := "/registry/core/configmaps/default/" + name
	store := s.dial(t)
	found, err := store.Get(t.Context(), key)
	if err != nil || len(found.Kvs) != 1 {
		t.Fatalf("%s is not in etcd: %v, %v", key, found, err)
	}
	if _, err := store.Put(t.Context(), key, "k8s\x00 and then nonsense"); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"while the server runs", "after a restart"} {
		l.Recovered(t, recovery)
		list, err := maps().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			t.Errorf("%s: a list with a broken object has %d objects: %v", when, len(list.Items), err)
		}
		for _, item := range list.Items {
			if item.Name == name {
				t.Errorf("%s: the broken object is in a list", when)
			}
		}
		_, err = maps().CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			t.Errorf("%s: reading the broken object: %v, want an error that says that it is broken", when, err)
		}
		if when != "after a restart" {
			s.kill()
			s.start(t)
		}
	}
	unsafely := true
	if err := maps().CoreV1().ConfigMaps("default").Delete(t.Context(), name, metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &unsafely}); err != nil {
		t.Errorf("deleting the broken object unsafely: %v", err)
	}
	if _, err := maps().CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Errorf("creating it anew: %v", err)
	}
}

// compactedPages takes the revision away that a paged list is of.
func compactedPages(t *testing.T, r row, s *server, l *traffic.Load) {
	const pages, each = 5, 7
	namespace := fmt.Sprintf("pages-%x", r.seed)
	client := s.client(t)
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	label := metav1.ListOptions{LabelSelector: "page=yes", Limit: each}
	name := func(i int) string { return fmt.Sprintf("page-%03d", i) }
	for i := range pages * each {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name(i), Labels: map[string]string{"page": "yes"}}}
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(from string) (*corev1.ConfigMapList, error) {
		options := label
		options.Continue = from
		return s.client(t).CoreV1().ConfigMaps(namespace).List(t.Context(), options)
	}
	wantPage := func(when string, page *corev1.ConfigMapList, first int) {
		t.Helper()
		if len(page.Items) != each {
			t.Fatalf("%s: %d objects, want %d", when, len(page.Items), each)
		}
		for i, item := range page.Items {
			if item.Name != name(first+i) {
				t.Errorf("%s: object %d is %s, want %s", when, i, item.Name, name(first+i))
			}
		}
	}
	first, err := list("")
	if err != nil {
		t.Fatal(err)
	}
	wantPage("the first page", first, 0)
	// The second page is of the moment of the first.
	if err := client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), name(each), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second, err := list(first.Continue)
	if err != nil {
		t.Fatal(err)
	}
	wantPage("the second page, after a deletion", second, each)
	if second.ResourceVersion != first.ResourceVersion {
		t.Errorf("the second page is of version %s, and the first of %s", second.ResourceVersion, first.ResourceVersion)
	}
	store := s.dial(t)
	now, err := store.Get(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Compact(t.Context(), now.Header.Revision); err != nil {
		t.Fatal(err)
	}
	l.Recovered(t, recovery)
	// A server that still has the revision in its cache may go on; one that has not says how to.
	if third, err := list(second.Continue); err == nil {
		wantPage("the third page, after compaction", third, 2*each)
	} else if !apierrors.IsResourceExpired(err) {
		t.Errorf("the third page, after compaction: %v", err)
	}
	s.kill()
	s.start(t)
	_, err = list(second.Continue)
	status := apierrors.APIStatus(nil)
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.Status().ListMeta.Continue == "" {
		t.Fatalf("the third page, after compaction and a restart: %v, want 410 with a new token", err)
	}
	if err := client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), name(2*each), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	third, err := list(status.Status().ListMeta.Continue)
	if err != nil {
		t.Fatal(err)
	}
	wantPage("the third page, of now", third, 2*each+1)
	watch, err := s.client(t).CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err == nil {
		event := <-watch.ResultChan()
		watch.Stop()
		err = apierrors.FromObject(event.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch from a version that was compacted: %v, want 410", err)
	}
}
