// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/apis/gatedfield"
	"github.com/kube-annex/annex/featuregate/clearfield"
)

// Gated is a gated field, and a client for the kind that has it, in all namespaces. The client's configuration should have
// rest.NoWarnings, since the server warns of each field that it drops.
type Gated struct {
	Field  gatedfield.Field
	Client dynamic.NamespaceableResourceInterface
}

// ClearField returns a task of turning off: it writes every stored object that has one of the fields, whereupon the server, which is
// TurningOff, drops it. A limiter, if there is one, is asked before each request. Objects that are clean are only read, so that an
// attempt after a crash costs little.
func ClearField(limiter flowcontrol.RateLimiter, fields ...Gated) Task {
	return Task{Name: "ClearField", DataChanging: true, Run: func(ctx context.Context, progress *Progress) error {
		var seen, cleared int64
		for _, f := range fields {
			var now clearfield.Progress
			_, err := clearfield.Clear(ctx, clearfield.Options{
				Client: f.Client, Field: f.Field, Limiter: limiter,
				Progress: func(_ context.Context, p clearfield.Progress) error {
					now = p
					total := int64(-1)
					if p.Remaining != nil {
						total = seen + p.Seen + *p.Remaining
					}
					progress.Done(seen+p.Seen, total)
					progress.Say(fmt.Sprintf("cleared %d objects of %d that were read", cleared+p.Cleared, seen+p.Seen))
					return nil
				},
			}, clearfield.Progress{})
			if err != nil {
				return err
			}
			seen, cleared = seen+now.Seen, cleared+now.Cleared
		}
		return nil
	}}
}

const waitForRemoval = "WaitForRemoval"

// WaitForRemoval returns a task of turning off that counts what uses the feature, again and again, until somebody has removed all of
// it. It removes nothing itself.
func WaitForRemoval(count Count, interval time.Duration) Task {
	return Task{Name: waitForRemoval, Run: func(ctx context.Context, progress *Progress) error {
		for {
			references, err := count(ctx)
			if err != nil {
				return fmt.Errorf("count what uses the feature: %w", err)
			}
			progress.Dangling(references)
			if references.Count == 0 {
				return nil
			}
			progress.Say(fmt.Sprintf("waits until %d objects are removed, or changed so that they do not use the feature: %s", references.Count, describeReferences(references)))
			if err := progress.Wait(ctx, interval); err != nil {
				return err
			}
		}
	}}
}

func describeReferences(references v1alpha1.DanglingReferences) string {
	names := make([]string, 0, len(references.Examples))
	for _, example := range references.Examples {
		name := example.Resource + " "
		if example.Namespace != "" {
			name += example.Namespace + "/"
		}
		names = append(names, name+example.Name)
	}
	if more := references.Count - int64(len(names)); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

const (
	clearPage     = 500
	clearInterval = time.Second
)

// errDataLoss is why ClearCollection does nothing.
var errDataLoss = errors.New("it deletes all objects of the kind, which the server was not allowed to; start it with --allow-data-loss, or delete them yourself")

// ClearCollection returns a task that deletes all objects of a resource, for schemas that do not fit what is stored. Unless data loss
// is allowed it deletes nothing, and waits until nothing is left.
func ClearCollection(client dynamic.NamespaceableResourceInterface, allowDataLoss bool) Task {
	return Task{Name: "ClearCollection", DataChanging: true, Run: func(ctx context.Context, progress *Progress) error {
		var done int64
		for {
			left, deleted, err := deletePages(ctx, client, progress, allowDataLoss, done)
			done += deleted
			if err != nil || left == 0 {
				return err
			}
			progress.Say(fmt.Sprintf("deleted %d objects; %d still have finalizers", done, left))
			if err := progress.Wait(ctx, clearInterval); err != nil {
				return err
			}
		}
	}}
}

// deletePages deletes what is there now, and returns how many objects there were and how many of them were not being deleted yet.
func deletePages(ctx context.Context, client dynamic.NamespaceableResourceInterface, progress *Progress, allowDataLoss bool, before int64) (left, deleted int64, err error) {
	for options := (metav1.ListOptions{Limit: clearPage}); ; {
		page, err := client.List(ctx, options)
		if err != nil {
			return left, deleted, fmt.Errorf("list what is to be deleted: %w", err)
		}
		if len(page.Items) > 0 && !allowDataLoss {
			return left, deleted, errDataLoss
		}
		// Between here and the deletions the process may be paused; what was stored later has another uid.
		if err := progress.Confirm(ctx); err != nil {
			return left, deleted, err
		}
		for i := range page.Items {
			left++
			if page.Items[i].GetDeletionTimestamp() != nil {
				continue
			}
			if err := deleteObject(ctx, client, &page.Items[i]); err != nil {
				return left, deleted, err
			}
			deleted++
		}
		total := int64(-1)
		if remaining := page.GetRemainingItemCount(); remaining != nil {
			total = before + deleted + *remaining
		}
		progress.Done(before+deleted, total)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return left, deleted, nil
		}
	}
}

func deleteObject(ctx context.Context, client dynamic.NamespaceableResourceInterface, object *unstructured.Unstructured) error {
	uid := object.GetUID()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	err := inNamespace(client, object.GetNamespace()).Delete(ctx, object.GetName(), options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return nil
}

func inNamespace(client dynamic.NamespaceableResourceInterface, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return client
	}
	return client.Namespace(namespace)
}
