// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
)

const (
	// attempts is how often a request whose pins broke is run before the client gets a 409.
	attempts = 5
	// firstPause is the delay before the second attempt. It doubles with each attempt, with up to as much jitter.
	firstPause = 10 * time.Millisecond
)

// guardedStore runs a kind's rules inside every write, has its companion written with it, and repeats the request when what
// the rules relied on has changed.
type guardedStore[T Object] struct {
	Reader[T]
	rules     Rules[T]
	companion *Companion[T]
}

func (g *guardedStore[T]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return repeat(ctx, g.conflict(nameOf(obj)), func(ctx context.Context) (runtime.Object, error) {
		readAnewIfDry(ctx, options.DryRun)
		// The store fills in the object it is given; each attempt needs the request's own.
		return g.store.Create(ctx, obj.DeepCopyObject(), g.onCreate(validate), options)
	})
}

func (g *guardedStore[T]) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	var created bool
	out, err := repeat(ctx, g.conflict(name), func(ctx context.Context) (out runtime.Object, err error) {
		readAnewIfDry(ctx, options.DryRun)
		out, created, err = g.store.Update(ctx, name, info, g.onCreate(validateCreate), g.onUpdate(validateUpdate), forceAllowCreate, options)
		return out, err
	})
	return out, created, err
}

func (g *guardedStore[T]) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	var done bool
	out, err := repeat(ctx, g.conflict(name), func(ctx context.Context) (out runtime.Object, err error) {
		if options != nil {
			readAnewIfDry(ctx, options.DryRun)
		}
		out, done, err = g.store.Delete(ctx, name, g.onDelete(validate, options), options.DeepCopy())
		return out, err
	})
	return out, done, err
}

func (g *guardedStore[T]) conflict(name string) error {
	return apierrors.NewConflict(g.store.DefaultQualifiedResource, name,
		errors.New("other objects that decide whether this is allowed kept changing meanwhile; try again"))
}

// repeat runs a request under a fresh guard until its pins hold.
func repeat[R any](ctx context.Context, giveUp error, attempt func(ctx context.Context) (R, error)) (R, error) {
	var none R
	for i := range attempts {
		guarded := withGuard(ctx)
		if i > 0 {
			guardFrom(guarded).readAnew()
		}
		out, err := attempt(guarded)
		if broken := (*pinBrokenError)(nil); !errors.As(err, &broken) {
			return out, err
		}
		if i == attempts-1 {
			break
		}
		select {
		case <-ctx.Done():
			return none, ctx.Err()
		case <-time.After(wait.Jitter(firstPause<<i, 1)):
		}
	}
	return none, giveUp
}

// readAnewIfDry has a dry run look twice: it compares nothing that would tell that what the process remembers is out of date.
func readAnewIfDry(ctx context.Context, dryRun []string) {
	if dryrun.IsDryRun(dryRun) {
		guardFrom(ctx).runDry()
	}
}

func (g *guardedStore[T]) onCreate(validate rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if err := guardFrom(ctx).concluded().err; err != nil {
			return err
		}
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return err
			}
		}
		peers, err := g.beginPrepared(ctx, obj)
		if err != nil || g.rules.Create == nil {
			return err
		}
		return g.rules.Create(ctx, peers, obj.(T))
	}
}

func (g *guardedStore[T]) onUpdate(validate rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		if err := guardFrom(ctx).concluded().err; err != nil {
			return err
		}
		if validate != nil {
			if err := validate(ctx, obj, old); err != nil {
				return err
			}
		}
		peers, err := g.beginPrepared(ctx, obj)
		if err != nil {
			return err
		}
		if old := old.(T); old.GetDeletionTimestamp() != nil && len(obj.(T).GetFinalizers()) == 0 {
			// The store deletes what has this name by then, which may be another object.
			revision, err := revisionOf(old)
			if err != nil {
				return err
			}
			peers.guard.add(peers.own, pin{key: peers.own, revision: revision})
		}
		if g.rules.Update == nil {
			return nil
		}
		return peers.confirm(ctx, old.(T), g.rules.Update(ctx, peers, obj.(T), old.(T)))
	}
}

func (g *guardedStore[T]) onDelete(validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return err
			}
		}
		peers, err := g.begin(ctx, nameOf(obj), nil)
		if err != nil {
			return err
		}
		if waitsForFinalizers(obj.(T), options) {
			// The store looks for finalizers first and deletes then, even if there are some by then.
			peers.guard.wait(peers.own)
		}
		if g.rules.Delete == nil {
			return nil
		}
		return peers.confirm(ctx, obj.(T), g.rules.Delete(ctx, peers, obj.(T)))
	}
}

// beginPrepared starts an attempt at writing an object that a strategy has prepared.
func (g *guardedStore[T]) beginPrepared(ctx context.Context, obj runtime.Object) (*pinningPeers[T], error) {
	peers, err := g.begin(ctx, nameOf(obj), g.valueOf(obj))
	if err != nil {
		return nil, err
	}
	for _, p := range peers.guard.concluded().pins {
		peers.guard.add(peers.own, p)
	}
	return peers, nil
}

// begin starts an attempt at writing an object, which leaves its companion at the value, or removes it with the object.
func (g *guardedStore[T]) begin(ctx context.Context, name string, value *string) (*pinningPeers[T], error) {
	own, err := g.store.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	p := &pinningPeers[T]{guardedStore: g, own: g.etcdKey(own), guard: guardFrom(ctx)}
	var companion *companionWrite
	if g.companion != nil {
		companion = &companionWrite{key: g.companion.Key(request.NamespaceValue(ctx), name), value: value}
	}
	p.guard.begin(p.own, companion)
	return p, nil
}

// valueOf returns what the companion holds while the object is stored so, nil where the kind has none.
func (g *guardedStore[T]) valueOf(obj runtime.Object) *string {
	if g.companion == nil {
		return nil
	}
	value := g.companion.Value(obj.(T))
	return &value
}

// pinningPeers reads other objects and pins what it saw to the write of own.
type pinningPeers[T Object] struct {
	*guardedStore[T]
	own   string
	guard *guard
}

func (p *pinningPeers[T]) Get(ctx context.Context, name string) (T, bool, error) {
	out, position, err := p.Read(ctx, name)
	if err != nil {
		return out, false, err
	}
	p.guard.add(p.own, pin{key: position.Key, revision: position.Revision})
	return out, position.Revision != 0, nil
}

// confirm sees to it that a refusal is about the object as it is: what the rules looked at was read after it, when it may have
// been another already. The request is repeated then. What is not refused is compared in the transaction.
func (p *pinningPeers[T]) confirm(ctx context.Context, read T, refusal error) error {
	if refusal == nil {
		return nil
	}
	revision, err := revisionOf(read)
	if err != nil {
		return err
	}
	_, position, err := p.Read(ctx, read.GetName())
	switch {
	case err != nil:
		return err
	case position.Revision != revision:
		return &pinBrokenError{own: p.own, other: p.own}
	}
	return refusal
}

// revisionOf is the mod revision of an object that was read.
func revisionOf(read metav1.Object) (int64, error) {
	revision, err := strconv.ParseInt(read.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the resource version of %s: %w", read.GetName(), err)
	}
	return revision, nil
}

// waitsForFinalizers tells whether a deletion only marks the object. Those of the garbage collector are dropped where the
// options say that dependents do not matter.
func waitsForFinalizers(obj metav1.Object, options *metav1.DeleteOptions) bool {
	drops := options != nil && (options.PropagationPolicy != nil && *options.PropagationPolicy == metav1.DeletePropagationBackground ||
		options.OrphanDependents != nil && !*options.OrphanDependents) //nolint:staticcheck // the store obeys it as well
	return slices.ContainsFunc(obj.GetFinalizers(), func(finalizer string) bool {
		return !drops || finalizer != metav1.FinalizerOrphanDependents && finalizer != metav1.FinalizerDeleteDependents
	})
}

// corruptDeleter deletes objects that cannot be read. Rules need the object and are bypassed; the companion goes with it.
type corruptDeleter[T Object] struct {
	*guardedStore[T]
}

func (d corruptDeleter[T]) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	ctx = withGuard(ctx)
	if _, err := d.begin(ctx, name, nil); err != nil {
		return nil, false, err
	}
	return d.store.GetCorruptObjDeleter().Delete(ctx, name, validate, options)
}

func nameOf(obj runtime.Object) string { return obj.(metav1.Object).GetName() }
