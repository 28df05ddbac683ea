// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversionmigrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/internal/workloop"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/resourcediscovery"
)

const (
	// pageSize bounds what is held in memory of the objects.
	pageSize = 500
	// writers is how many objects of one resource are written at once.
	writers = 8
	// firstRetry and lastRetry bound how soon an object is tried again whose server was busy or away.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
	// fieldManager is what writes nothing, so it owns no field.
	fieldManager = "annex-storage-migration"
)

// rewriting stores the objects of one kind anew.
type rewriting struct {
	*Controller
	m    *migration
	kind *resourcediscovery.Kind
}

// all returns how many objects there were.
func (r rewriting) all(ctx context.Context) (int, error) {
	number := 0
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := r.page(ctx, options)
		if expired := (apierrors.APIStatus)(nil); errors.As(err, &expired) && apierrors.IsResourceExpired(err) && expired.Status().Continue != "" {
			// The rest may be newer than the pages before; it is all the same to us.
			options.Continue = expired.Status().Continue
			continue
		}
		if err != nil {
			return number, fmt.Errorf("list %s: %w", r.kind.GroupVersionResource, err)
		}
		if err := r.write(ctx, page.Items); err != nil {
			return number, err
		}
		number += len(page.Items)
		if options.Continue = page.Continue; options.Continue == "" {
			return number, nil
		}
	}
}

func (r rewriting) page(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	var page *metav1.PartialObjectMetadataList
	return page, r.patiently(ctx, func() error {
		var err error
		page, err = r.objects.Resource(r.kind.GroupVersionResource).List(ctx, options)
		return err
	})
}

// write stores objects anew, and returns after the first that cannot be.
func (r rewriting) write(ctx context.Context, objects []metav1.PartialObjectMetadata) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *metav1.PartialObjectMetadata)
	var running sync.WaitGroup
	for range min(writers, len(objects)) {
		running.Go(func() {
			for object := range next {
				err := leadership.Call(ctx, func(ctx context.Context) error {
					return r.patiently(ctx, func() error { return r.one(ctx, object) })
				})
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range objects {
		if ctx.Err() != nil {
			break
		}
		next <- &objects[i]
	}
	close(next)
	running.Wait()
	return context.Cause(ctx)
}

// one has the server write an object as it was listed.
func (r rewriting) one(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	nothing, err := json.Marshal(map[string]any{
		"apiVersion": r.kind.GroupVersion().String(), "kind": r.kind.Name,
		"metadata": map[string]string{"resourceVersion": object.ResourceVersion},
	})
	if err != nil {
		return err
	}
	_, err = r.objects.Resource(r.kind.GroupVersionResource).Namespace(object.Namespace).
		Patch(ctx, object.Name, types.MergePatchType, nothing, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case err == nil, apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case transient(err):
		return err
	}
	name := object.Name
	if object.Namespace != "" {
		name = object.Namespace + "/" + name
	}
	return hopeless{fmt.Errorf("%s %s cannot be written: %w", resourceOf(r.m), name, err)}
}

// patiently tries again as long as the migration is wanted and the server may be only busy or away, and says so if that goes on.
func (r rewriting) patiently(ctx context.Context, do func() error) error {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		if !r.wanted(r.m) {
			return errGone
		}
		err := do()
		if err == nil || !transient(err) {
			return err
		}
		if retry == lastRetry {
			if unsaid := r.set(ctx, r.m, "", waiting(err)); unsaid != nil {
				return unsaid
			}
		}
		if stopped := workloop.Pause(ctx, clock.RealClock{}, retry); stopped != nil {
			return stopped
		}
	}
}

func transient(err error) bool {
	if unreached := (net.Error)(nil); errors.As(err, &unreached) {
		return true
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}
