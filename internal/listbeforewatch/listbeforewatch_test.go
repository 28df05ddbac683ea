// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package listbeforewatch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/internal/listbeforewatch"
)

// newInformers returns an informer of namespaces for each way to make it list first.
func newInformers(t *testing.T, config *rest.Config) map[string]cache.SharedInformer {
	t.Helper()
	plain, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(listbeforewatch.Transport)
	client, err := kubernetes.NewForConfig(wrapped)
	if err != nil {
		t.Fatal(err)
	}
	source := listbeforewatch.ListWatch{ListWatch: &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return plain.CoreV1().Namespaces().List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return plain.CoreV1().Namespaces().Watch(ctx, options)
		},
	}}
	all := map[string]cache.SharedInformer{
		"Transport": informers.NewSharedInformerFactory(client, 0).Core().V1().Namespaces().Informer(),
		"ListWatch": cache.NewSharedInformer(source, &corev1.Namespace{}, 0),
	}
	for _, informer := range all {
		// The default handler sleeps for all goroutines of the process together, those in bubbles and the others.
		if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestInformersListBeforeTheyWatch(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		requests <- fmt.Sprintf("watch=%s sendInitialEvents=%s", query.Get("watch"), query.Get("sendInitialEvents"))
		w.Header().Set("Content-Type", "application/json")
		if query.Has("sendInitialEvents") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		if query.Get("watch") != "true" {
			_, _ = w.Write([]byte(`{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"}}`))
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	for name, informer := range newInformers(t, &rest.Config{Host: server.URL}) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			informer.RunWithContext(ctx)
		}()
		got := []string{<-requests, <-requests}
		if diff := cmp.Diff([]string{"watch= sendInitialEvents=", "watch=true sendInitialEvents="}, got); diff != "" {
			t.Errorf("the requests of an informer with %s (-want,+got):\n%s", name, diff)
		}
		cancel()
		<-done
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestInformersOfAServerThatIsAwayStopWithTheirContext(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Transport", "ListWatch"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				refused := roundTripper(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED })
				informer := newInformers(t, &rest.Config{Host: "http://server", Transport: refused})[name]
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					informer.RunWithContext(ctx)
				}()
				time.Sleep(10 * time.Minute) //nolint:forbidigo // in a bubble; the pauses between attempts are long by then
				stopped := time.Now()
				cancel()
				<-done
				if took := time.Since(stopped); took > 0 {
					t.Errorf("the informer stopped %v after its context", took)
				}
			})
		})
	}
}
