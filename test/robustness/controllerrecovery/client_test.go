// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	// requestTimeout is how long a request may take before it is made anew, at another replica perhaps.
	requestTimeout = 10 * time.Second
	// patience is when a test gives up to wait. Controllers try again after two minutes at most, and a busy machine starts a replica in one.
	patience = 10 * time.Minute
)

func rawCodecs() runtime.NegotiatedSerializer {
	return serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
}

// requests are made at whichever replica is ready, until one of them answers. What was not answered may have been done.
type requests struct {
	*world
	// random is for what is asked, and picks for whom, which depends on how often.
	random, picks *rand.Rand
}

func newRequests(w *world, seed uint64) *requests {
	return &requests{world: w, random: rand.New(rand.NewPCG(seed, 0)), picks: rand.New(rand.NewPCG(seed, 1))}
}

// errNobody is that no replica is ready.
var errNobody = errors.New("no replica is ready")

// pick returns a replica that is ready.
func (q *requests) pick() *client {
	for _, i := range q.picks.Perm(len(q.replicas)) {
		if ready := q.replicas[i].ready.Load(); ready != nil {
			return ready
		}
	}
	return nil
}

// until does something until there is an answer. It tells whether something was not answered before.
func (q *requests) until(ctx context.Context, do func(context.Context, dynamic.Interface) error) (unsure bool, err error) {
	deadline := time.Now().Add(patience)
	for {
		err := errNobody
		if ready := q.pick(); ready != nil {
			limited, cancel := context.WithTimeout(ctx, requestTimeout)
			err = do(limited, ready.dynamic)
			cancel()
			if err == nil || isAnswer(err) {
				return unsure, err
			}
			unsure = true
			if apierrors.IsNotFound(err) {
				q.note("somebody who is ready does not serve a kind: %v", err)
			}
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return unsure, fmt.Errorf("nobody has answered within %s: %w", patience, err)
		}
		poll.Pause(ctx, 30*time.Millisecond)
	}
}

// isAnswer tells a server's last word from what a server says that comes or goes, and from no answer at all.
func isAnswer(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	switch s := status.Status(); {
	case s.Reason == metav1.StatusReasonNotFound:
		// A kind is not found by a replica that does not serve it yet.
		return s.Details != nil && s.Details.Name != "" && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	case s.Reason == metav1.StatusReasonForbidden && strings.Contains(s.Message, "status unknown for quota"):
		// No controller has looked at the quota yet.
		return false
	default:
		return s.Code >= 400 && s.Code < 500 && s.Code != 408 && s.Code != 429
	}
}

func in(client dynamic.Interface, of schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return client.Resource(of)
	}
	return client.Resource(of).Namespace(namespace)
}

// create returns the object as it was created, by the last request or by one before that was not answered.
func (q *requests) create(ctx context.Context, of schema.GroupVersionResource, obj *unstructured.Unstructured) (created *unstructured.Unstructured, unsure bool, err error) {
	before, err := q.until(ctx, func(ctx context.Context, client dynamic.Interface) (err error) {
		created, err = in(client, of, obj.GetNamespace()).Create(ctx, obj, metav1.CreateOptions{})
		return err
	})
	if before && apierrors.IsAlreadyExists(err) {
		created, err = q.get(ctx, of, obj.GetNamespace(), obj.GetName())
	}
	if err != nil {
		return nil, before, fmt.Errorf("create %s %s/%s: %w", of.Resource, obj.GetNamespace(), obj.GetName(), err)
	}
	return created, before, nil
}

func (q *requests) get(ctx context.Context, of schema.GroupVersionResource, namespace, name string) (found *unstructured.Unstructured, err error) {
	_, err = q.until(ctx, func(ctx context.Context, client dynamic.Interface) (err error) {
		found, err = in(client, of, namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get %s %s/%s: %w", of.Resource, namespace, name, err)
	}
	return found, nil
}

// change has an object as the function makes it.
func (q *requests) change(ctx context.Context, of schema.GroupVersionResource, namespace, name, subresource string, change func(*unstructured.Unstructured)) (changed *unstructured.Unstructured, err error) {
	for {
		_, err = q.until(ctx, func(ctx context.Context, client dynamic.Interface) error {
			current, err := in(client, of, namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(current)
			var under []string
			if subresource != "" {
				under = []string{subresource}
			}
			changed, err = in(client, of, namespace).Update(ctx, current, metav1.UpdateOptions{}, under...)
			return err
		})
		if err == nil {
			return changed, nil
		}
		if !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("change %s %s/%s: %w", of.Resource, namespace, name, err)
		}
	}
}

// remove deletes the object with that uid. One that is gone already, or that is another by now, is left alone.
func (q *requests) remove(ctx context.Context, of schema.GroupVersionResource, obj *unstructured.Unstructured, policy metav1.DeletionPropagation) error {
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(obj.GetUID()))}
	if policy != "" {
		options.PropagationPolicy = &policy
	}
	unsure, err := q.until(ctx, func(ctx context.Context, client dynamic.Interface) error {
		return in(client, of, obj.GetNamespace()).Delete(ctx, obj.GetName(), options)
	})
	if unsure || err != nil {
		q.note("deleting %s (%s), unsure %t: %v", idOf(of, obj), policy, unsure, err)
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s/%s: %w", of.Resource, obj.GetNamespace(), obj.GetName(), err)
	}
	if q.picks.IntN(100) < 40 {
		select {
		case q.urge <- struct{}{}:
		default:
		}
	}
	return nil
}

// release takes all finalizers but those of the garbage collector off an object, if it is there.
func (q *requests) release(ctx context.Context, of schema.GroupVersionResource, namespace, name string) error {
	_, err := q.change(ctx, of, namespace, name, "", func(obj *unstructured.Unstructured) {
		var left []string
		for _, finalizer := range obj.GetFinalizers() {
			if finalizer != hold {
				left = append(left, finalizer)
			}
		}
		obj.SetFinalizers(left)
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// patch is a merge patch that may be made twice.
func (q *requests) patch(ctx context.Context, of schema.GroupVersionResource, namespace, name, body string) (patched *unstructured.Unstructured, err error) {
	_, err = q.until(ctx, func(ctx context.Context, client dynamic.Interface) (err error) {
		patched, err = in(client, of, namespace).Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("patch %s %s/%s: %w", of.Resource, namespace, name, err)
	}
	return patched, nil
}

// everywhere asks each replica, those that are away once they are back, until it has no objection.
func (q *requests) everywhere(ctx context.Context, ask func(context.Context, dynamic.Interface) error) error {
	for _, r := range q.replicas {
		err := poll.Until(ctx, patience, func(ctx context.Context) error {
			ready := r.ready.Load()
			if ready == nil {
				return fmt.Errorf("%s is not ready", r.name)
			}
			return ask(ctx, ready.dynamic)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
