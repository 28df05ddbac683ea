// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flowcontrol keeps the FlowSchemas and PriorityLevelConfigurations that every control plane starts with.
//
// Mandatory objects are kept as they are meant to be, except for how much of the exempt level others may borrow. Suggested
// objects are created, and updated as long as nobody else has changed them: an annotation tells, see
// https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#maintenance-of-the-mandatory-and-suggested-configuration-objects.
// Suggested are those of Kubernetes and further FlowSchemas of whoever makes the control plane.
package flowcontrol

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	informers "k8s.io/client-go/informers/flowcontrol/v1"
	client "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/internal/workloop"
)

const (
	// recheck is how often the objects are compared with what they should be.
	recheck = time.Minute
	// firstRetry and lastRetry bound how long it takes to try again after a failure.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// Controller keeps the objects.
type Controller struct {
	client  client.FlowcontrolV1Interface
	schemas informers.FlowSchemaInformer
	levels  informers.PriorityLevelConfigurationInformer
	synced  []cache.InformerSynced
	// suggested are all FlowSchemas that are not mandatory.
	suggested []*flowcontrolv1.FlowSchema
}

// New returns a controller that reads from the informers, which others start. The further schemas are kept as suggested ones.
func New(client client.FlowcontrolV1Interface, informers informers.Interface, further []*flowcontrolv1.FlowSchema) *Controller {
	c := &Controller{client: client, schemas: informers.FlowSchemas(), levels: informers.PriorityLevelConfigurations(), suggested: suggested(further)}
	c.synced = []cache.InformerSynced{c.schemas.Informer().HasSynced, c.levels.Informer().HasSynced}
	return c
}

// Run keeps the objects until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return nil
	}
	workloop.Repeat{Interval: recheck, FirstRetry: firstRetry, LastRetry: lastRetry}.Run(ctx, c.ensure, func(err error) {
		klog.FromContext(ctx).V(2).Info("Flow control objects could not be brought up to date; trying again", "reason", err.Error())
	})
	return nil
}

func suggested(further []*flowcontrolv1.FlowSchema) []*flowcontrolv1.FlowSchema {
	return append(slices.Clone(bootstrap.SuggestedFlowSchemas), further...)
}

func (c *Controller) ensure(ctx context.Context) error {
	// Levels come first: a schema without its level is reported as dangling.
	levels := objects[*flowcontrolv1.PriorityLevelConfiguration]{
		writer: c.client.PriorityLevelConfigurations(), get: c.levels.Lister().Get,
		same: func(have, want *flowcontrolv1.PriorityLevelConfiguration) bool {
			return equality.Semantic.DeepEqual(have.Spec, want.Spec)
		},
		copySpec: func(into, from *flowcontrolv1.PriorityLevelConfiguration) { into.Spec = *from.Spec.DeepCopy() },
	}
	if err := levels.ensure(ctx, bootstrap.SuggestedPriorityLevelConfigurations, false); err != nil {
		return err
	}
	mandatory := levels
	mandatory.same = func(have, want *flowcontrolv1.PriorityLevelConfiguration) bool {
		have, want = have.DeepCopy(), want.DeepCopy()
		want.Spec.Exempt = have.Spec.Exempt
		return equality.Semantic.DeepEqual(have.Spec, want.Spec)
	}
	mandatory.copySpec = func(into, from *flowcontrolv1.PriorityLevelConfiguration) {
		exempt := into.Spec.Exempt
		into.Spec = *from.Spec.DeepCopy()
		if into.Spec.Exempt != nil && exempt != nil {
			into.Spec.Exempt = exempt
		}
	}
	if err := mandatory.ensure(ctx, bootstrap.MandatoryPriorityLevelConfigurations, true); err != nil {
		return err
	}
	schemas := objects[*flowcontrolv1.FlowSchema]{
		writer: c.client.FlowSchemas(), get: c.schemas.Lister().Get,
		same: func(have, want *flowcontrolv1.FlowSchema) bool {
			return equality.Semantic.DeepEqual(have.Spec, want.Spec)
		},
		copySpec: func(into, from *flowcontrolv1.FlowSchema) { into.Spec = *from.Spec.DeepCopy() },
	}
	if err := schemas.ensure(ctx, c.suggested, false); err != nil {
		return err
	}
	return schemas.ensure(ctx, bootstrap.MandatoryFlowSchemas, true)
}

type object interface {
	metav1.Object
	runtime.Object
}

type writer[T object] interface {
	Create(ctx context.Context, obj T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, obj T, options metav1.UpdateOptions) (T, error)
}

// objects keeps the objects of one kind.
type objects[T object] struct {
	writer   writer[T]
	get      func(name string) (T, error)
	same     func(have, want T) bool
	copySpec func(into, from T)
}

func (o objects[T]) ensure(ctx context.Context, wanted []T, mandatory bool) error {
	for _, want := range wanted {
		if err := o.ensureOne(ctx, want, mandatory); err != nil {
			return fmt.Errorf("%s: %w", want.GetName(), err)
		}
	}
	return nil
}

func (o objects[T]) ensureOne(ctx context.Context, want T, mandatory bool) error {
	have, err := o.get(want.GetName())
	if apierrors.IsNotFound(err) {
		// Clients write the version into what they send, and what is wanted belongs to all servers of the process.
		created := want.DeepCopyObject().(T)
		metav1.SetMetaDataAnnotation(metaOf(created), flowcontrolv1.AutoUpdateAnnotationKey, "true")
		_, err = o.writer.Create(ctx, created, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	if err != nil {
		return err
	}
	ours := mandatory || isOurs(have)
	if !ours || o.same(have, want) && have.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey] != "" {
		return nil
	}
	updated := have.DeepCopyObject().(T)
	metav1.SetMetaDataAnnotation(metaOf(updated), flowcontrolv1.AutoUpdateAnnotationKey, "true")
	o.copySpec(updated, want)
	_, err = o.writer.Update(ctx, updated, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		// Seen again in the next round, as it is then.
		return nil
	}
	return err
}

// isOurs tells whether nobody has taken the object over. Without the annotation, an object whose spec was never changed
// still counts as ours.
func isOurs(have metav1.Object) bool {
	if value, ok := have.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey]; ok {
		ours, err := strconv.ParseBool(value)
		return err == nil && ours
	}
	return have.GetGeneration() == 1
}

func metaOf(obj any) *metav1.ObjectMeta {
	return obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}
