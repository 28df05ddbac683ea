// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
)

// charge is a request that waits for what it uses to be charged.
type charge struct {
	admission.Attributes
	evaluator quotav1.Evaluator
	// of is what it uses of the quotas that concern it, by their names.
	of   map[string]corev1.ResourceList
	err  error
	done chan struct{}
}

// quotaBatches have requests to a namespace judged one batch after the other, so that a quota is written once for many requests.
type quotaBatches struct {
	judge func(ctx context.Context, namespace string, batch []*charge)

	mu sync.Mutex
	// waiting has the requests to the namespaces that are being judged; who adds the first has them judged.
	waiting map[string][]*charge
}

func newQuotaBatches(judge func(context.Context, string, []*charge)) *quotaBatches {
	return &quotaBatches{judge: judge, waiting: map[string][]*charge{}}
}

// add returns when the request was judged.
func (b *quotaBatches) add(ctx context.Context, namespace string, request admission.Attributes) error {
	one := &charge{Attributes: request, evaluator: evaluatorFor(request.GetResource().GroupResource()), of: map[string]corev1.ResourceList{}, done: make(chan struct{})}
	b.mu.Lock()
	others, busy := b.waiting[namespace]
	b.waiting[namespace] = append(others, one)
	b.mu.Unlock()
	if !busy {
		// It goes on for those who come meanwhile, however long this request lasts.
		go b.work(context.WithoutCancel(ctx), namespace)
	}
	select {
	case <-one.done:
		return one.err
	case <-ctx.Done():
		return apierrors.NewTimeoutError(fmt.Sprintf("what the request uses of the quotas of %s could not be charged in time: %v", namespace, ctx.Err()), 1)
	}
}

func (b *quotaBatches) work(ctx context.Context, namespace string) {
	for {
		b.mu.Lock()
		batch := b.waiting[namespace]
		if len(batch) == 0 {
			delete(b.waiting, namespace)
			b.mu.Unlock()
			return
		}
		b.waiting[namespace] = nil
		b.mu.Unlock()
		within, cancel := context.WithTimeout(ctx, quotaPatience)
		b.judge(within, namespace, batch)
		cancel()
		for _, one := range batch {
			close(one.done)
		}
	}
}
