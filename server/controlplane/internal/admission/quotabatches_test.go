// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestRequestsThatComeMeanwhileAreOneBatch holds the judgement of the first request while others come.
func TestRequestsThatComeMeanwhileAreOneBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		next := make(chan struct{})
		b := newQuotaBatches(func(_ context.Context, _ string, batch []*charge) {
			sizes = append(sizes, len(batch))
			<-next
			for _, one := range batch {
				if one.GetName() == "bad" {
					one.err = errors.New("refused")
				}
			}
		})
		var requests sync.WaitGroup
		add := func(name string, want bool) {
			requests.Go(func() {
				if err := b.add(t.Context(), "ns", secret(name)); (err != nil) != want {
					t.Errorf("%s: got %v, want an error: %t", name, err, want)
				}
			})
			synctest.Wait()
		}
		add("first", false)
		add("second", false)
		add("bad", true)
		add("last", false)
		next <- struct{}{}
		next <- struct{}{}
		requests.Wait()
		synctest.Wait()
		if len(b.waiting) > 0 {
			t.Errorf("nobody waits, and there is %v", b.waiting)
		}
		add("later", false)
		next <- struct{}{}
		requests.Wait()
		if !slices.Equal(sizes, []int{1, 3, 1}) {
			t.Errorf("batches of %v requests were judged, want 1, 3 and 1", sizes)
		}
	})
}

// TestARequestThatEndsBeforeItIsJudged does not keep others from being judged.
func TestARequestThatEndsBeforeItIsJudged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		b := newQuotaBatches(func(ctx context.Context, _ string, batch []*charge) {
			<-next
			for _, one := range batch {
				one.err = ctx.Err()
			}
		})
		ended, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- b.add(ended, "ns", secret("first")) }()
		synctest.Wait()
		go func() { second <- b.add(t.Context(), "ns", secret("second")) }()
		cancel()
		if err := <-first; !apierrors.IsTimeout(err) {
			t.Errorf("got %v, want a timeout", err)
		}
		close(next)
		if err := <-second; err != nil {
			t.Errorf("the other request: %v", err)
		}
		synctest.Wait()
	})
}
