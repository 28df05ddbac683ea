// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/server/controlplane"
)

// accountStore is an etcd client that can be made to fail reads of service accounts, and to hold back the events about them.
type accountStore struct {
	kubernetes.Interface
	clientv3.Watcher
	fails  atomic.Bool
	events sync.RWMutex
}

func ofAccounts(key string) bool { return strings.Contains(key, "/serviceaccounts/") }

func (s *accountStore) Get(ctx context.Context, key string, options kubernetes.GetOptions) (kubernetes.GetResponse, error) {
	if s.fails.Load() && ofAccounts(key) {
		return kubernetes.GetResponse{}, errors.New("etcdserver: no leader")
	}
	return s.Interface.Get(ctx, key, options)
}

func (s *accountStore) Watch(ctx context.Context, key string, options ...clientv3.OpOption) clientv3.WatchChan {
	events := s.Watcher.Watch(ctx, key, options...)
	if !ofAccounts(key) {
		return events
	}
	passed := make(chan clientv3.WatchResponse)
	go func() {
		defer close(passed)
		for event := range events {
			s.events.RLock()
			s.events.RUnlock() //nolint:staticcheck // Waits until the lock is free.
			select {
			case passed <- event:
			case <-ctx.Done():
			}
		}
	}()
	return passed
}

// TestTokensOutliveTheStore has reads of accounts fail: tokens are good as long as the watch cache has their account, and else nobody knows.
func TestTokensOutliveTheStore(t *testing.T) {
	t.Parallel()
	store := &accountStore{}
	var h *host
	h = newHost(t, func(*controlplane.Options) {
		store.Interface, store.Watcher = h.Backend.Client.Kubernetes, h.Backend.Client.Watcher
		h.Backend.Client.Kubernetes, h.Backend.Client.Watcher = store, store
	})
	withStore := h.Adjust
	keyFile := newKeyFile(t)
	h.Adjust = func(o *controlplane.Options) {
		withStore(o)
		o.ServiceAccounts = controlplane.ServiceAccounts{Issuers: []string{issuer}, SigningKeyFile: keyFile, RootCAFile: h.Serving.CertFile()}
	}
	h.Start()
	admin := core(t, h.Admin())
	newAccount(t, admin, "known")
	known := tokenOf(t, admin, "known", authenticationv1.TokenRequestSpec{})
	eventually(t, func() error {
		_, err := admin.CoreV1().ServiceAccounts("default").Get(t.Context(), "known", metav1.GetOptions{ResourceVersion: "0"})
		return err
	})
	store.events.Lock()
	released := sync.OnceFunc(store.events.Unlock)
	defer released()
	newAccount(t, admin, "new")
	fresh := tokenOf(t, admin, "new", authenticationv1.TokenRequestSpec{})
	h.wantStatus("before the store fails", fresh, http.StatusOK)

	store.fails.Store(true)
	h.wantStatus("an account in the watch cache", known, http.StatusOK)
	h.wantStatus("an account that is not in the watch cache", fresh, http.StatusServiceUnavailable)
	h.wantStatus("no token of ours", "garbage", http.StatusUnauthorized)
	review := func(token string) (*authenticationv1.TokenReview, error) {
		return admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	}
	if answer, err := review(known); err != nil || !answer.Status.Authenticated {
		t.Errorf("a review of an account in the watch cache: got %v, %v", answer, err)
	}
	if answer, err := review(fresh); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a review of an account that is not in the watch cache: got %v, %v; want 503", answer, err)
	}
	released()
	eventually(t, func() error {
		if code := h.status(fresh); code != http.StatusOK {
			return fmt.Errorf("once the watch cache has the account: got %d", code)
		}
		return nil
	})
	store.fails.Store(false)
	if err := admin.CoreV1().ServiceAccounts("default").Delete(t.Context(), "new", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.wantStatus("an account that is gone", fresh, http.StatusUnauthorized)
}
