// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"errors"
	"net/http"
	"syscall"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// An informer whose streamed list is refused must ask for an ordinary one: client-go's would sleep, deaf to its context, and try the
// stream again.
func TestInformersOfATermDoNotSleepThroughItsEnd(t *testing.T) {
	t.Parallel()
	tests := map[string]func() (*http.Response, error){
		"too many requests": func() (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusTooManyRequests, Status: "429 Too Many Requests", Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody,
			}, nil
		},
		"connection refused": func() (*http.Response, error) { return nil, errors.Join(syscall.ECONNREFUSED) },
	}
	for name, refuse := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := rest.CopyConfig(admin)
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Query().Get("sendInitialEvents") == "true" {
						return refuse()
					}
					return next.RoundTrip(r)
				})
			})
			_, term, _ := termOf(t, newStage(t), as(config))
			client, err := kubernetes.NewForConfig(term.Client())
			if err != nil {
				t.Fatal(err)
			}
			factory := informers.NewSharedInformerFactory(client, 0)
			informer := factory.Core().V1().ConfigMaps().Informer()
			stop := make(chan struct{})
			factory.Start(stop)
			defer factory.Shutdown()
			defer close(stop)
			eventually(t, soon, "the informer has a list", func() (bool, any) { return informer.HasSynced(), nil })
		})
	}
}
