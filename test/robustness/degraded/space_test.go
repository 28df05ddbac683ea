// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package degraded

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
)

const (
	quota = 16 << 20
	large = 512 << 10
)

// ledger knows what was acknowledged: which ConfigMaps there have to be.
type ledger struct {
	there  map[string]bool
	unsure map[string]bool
	next   int
}

// fill creates large ConfigMaps until the store is full and stays so. healthz says whether it does.
func (l *ledger) fill(t *testing.T, c *clients, full func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for full() != nil {
		if time.Now().After(deadline) {
			t.Fatalf("%d ConfigMaps have not filled the store: %v", len(l.there), full())
		}
		name := fmt.Sprintf("large-%d", l.next)
		l.next++
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": strings.Repeat("a", large)}}
		_, err := c.kubernetes.CoreV1().ConfigMaps("default").Create(t.Context(), configMap, metav1.CreateOptions{})
		if err == nil {
			l.there[name] = true
			continue
		}
		// The write that fills the store may have happened.
		l.unsure[name] = true
		if problem := isFull(err); problem != nil {
			t.Fatal(problem)
		}
	}
}

// isFull makes sure that a write was refused for want of space, in a way that says what to do.
func isFull(err error) error {
	return notRefused(err, http.StatusInsufficientStorage, "the store is full", "delete what is not needed, which works meanwhile, or raise the quota with --etcd-quota-bytes")
}

// check compares what there is with what was acknowledged.
func (l *ledger) check(t *testing.T, c *clients) {
	t.Helper()
	list, err := c.kubernetes.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for i := range list.Items {
		name := list.Items[i].Name
		if strings.HasPrefix(name, "large-") {
			found[name] = true
			if !l.there[name] && !l.unsure[name] || len(list.Items[i].Data["a"]) != large {
				t.Errorf("ConfigMap %s is there, with %d bytes", name, len(list.Items[i].Data["a"]))
			}
		}
	}
	for name := range l.there {
		if !found[name] {
			t.Errorf("ConfigMap %s was acknowledged, and is not there", name)
		}
	}
}

// empty deletes half of what there is.
func (l *ledger) empty(t *testing.T, c *clients) {
	t.Helper()
	half := len(l.there) / 2
	for name := range l.there {
		if half == 0 {
			return
		}
		half--
		if err := c.kubernetes.CoreV1().ConfigMaps("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("deleting while the store is full: %v", err)
		}
		delete(l.there, name)
	}
}

func newLedger() *ledger { return &ledger{there: map[string]bool{}, unsure: map[string]bool{}} }

// TestEmbeddedStoreIsFull fills it with data that nothing but deletes make less, restarts meanwhile, and deletes.
func TestEmbeddedStoreIsFull(t *testing.T) {
	t.Parallel()
	a := start(t, func(o *standalone.Options) { o.Etcd.QuotaBytes = quota })
	if err := a.configMap(t, "before"); err != nil {
		t.Fatal(err)
	}
	full := func() error {
		if code, body := a.get(t, "/healthz/etcd-space"); code != http.StatusInternalServerError || !strings.Contains(body, "etcd is full: live data takes") {
			return fmt.Errorf("/healthz/etcd-space: %d %s", code, body)
		}
		return nil
	}
	l := newLedger()
	l.fill(t, a.clients, full)
	wantFull(t, a, l)
	a.stop()

	a.begin()
	framework.Eventually(t, patience, full)
	framework.Eventually(a.t, patience, func() error {
		if said := a.out.String(); !strings.Contains(said, "the store is full") {
			return errors.New(said)
		}
		return nil
	})
	wantFull(t, a, l)
	l.empty(t, a.clients)
	framework.Eventually(t, patience, func() error { return a.configMap(t, "after") })
	a.waitReady()
	framework.Eventually(t, patience, func() error { return a.check(t, "/healthz/etcd-space", http.StatusOK) })
	l.check(t, a.clients)
	a.mustHave(t, "before", "after")
	wantControllers(t, a, "led-again")
	if err := a.claim(t, "after.example.com"); err != nil {
		t.Error(err)
	}
}

// wantFull tries what works and what does not while the store is full.
func wantFull(t *testing.T, a *annex, l *ledger) {
	t.Helper()
	for what, err := range map[string]error{
		"creating": a.configMap(t, "during"),
		"patching": patched(a.kubernetes.CoreV1().ConfigMaps("default").Patch(t.Context(), "before", types.MergePatchType, []byte(`{"data":{"more":"x"}}`), metav1.PatchOptions{})),
	} {
		if problem := isFull(err); problem != nil {
			t.Errorf("%s: %v", what, problem)
		}
	}
	a.mustHave(t, "before")
	l.check(t, a.clients)
	for path, code := range map[string]int{"/livez": 200, "/readyz/etcd": 200, "/healthz": 500, "/apis": 200, "/openapi/v3": 200, "/api/v1/namespaces/default/configmaps/during": 404} {
		a.want(t, path, code)
	}
}

func patched(_ *corev1.ConfigMap, err error) error { return err }
