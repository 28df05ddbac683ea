// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterid

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/clusterclaims"
)

// ProvisionedAnnotation of the claim repeats the value that the controller gave it.
const ProvisionedAnnotation = "annex.io/provisioned-id"

// recheck is how often the claim is looked at when nothing happens to it: changes may be missed, and a member that has another id than
// it was told may leave its set.
const recheck = 30 * time.Second

// Reasons of the condition Provisioned.
const (
	reasonProvisioned = "Provisioned"
	reasonSame        = "SameByAnother"
	reasonDiffers     = "Differs"
	reasonMember      = "Member"

	actionProvision = "Provision"
)

// Controller provides the claim id.k8s.io.
type Controller struct {
	claim  *clusterclaims.Claim
	source Source
	id     string
	clock  clock.Clock
}

// New returns a controller. It starts nothing; the error lists every mistake.
func New(options Options) (*Controller, error) {
	if options.Host == nil {
		return nil, errors.New("provide the cluster's id: options have no Host")
	}
	if errs := options.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	claim, err := clusterclaims.NewClaim(options.Host, v1alpha1.ClaimID)
	if err != nil {
		return nil, fmt.Errorf("provide the cluster's id: %w", err)
	}
	c := &Controller{claim: claim, source: options.Source, id: options.ID, clock: options.Clock}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	return c, nil
}

// Run provides the id until the context ends, and returns when all of its work has ended.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("cluster-id"))
	if c.source == SourceNone {
		<-ctx.Done()
		return nil
	}
	loop := clusterclaims.Loop{Claim: c.claim, Clock: c.clock, Work: c.provide}
	loop.Run(ctx)
	return nil
}

// provide brings the claim in line with the source, as far as it may, and returns when to do so again.
func (c *Controller) provide(ctx context.Context) (time.Duration, error) {
	return recheck, c.provideOnce(ctx)
}

func (c *Controller) provideOnce(ctx context.Context) error {
	if c.id == "" {
		uid, err := c.claim.ClusterUID(ctx)
		if err != nil {
			return err
		}
		c.id = string(uid)
	}
	claim, err := c.claim.Get(ctx)
	switch {
	case err != nil:
		return err
	case claim == nil:
		return c.create(ctx)
	case claim.DeletionTimestamp != nil:
		return nil // it is made anew when it is gone
	case claim.Spec.Value == c.id:
		return c.agree(ctx, claim)
	case own(claim):
		return c.change(ctx, claim)
	}
	return c.differ(ctx, claim, reasonDiffers, fmt.Sprintf(
		"The id is %q, which somebody else has chosen, and %s says %q; it is left as it is.", claim.Spec.Value, c.told(), c.id))
}

// own tells whether the value is what the controller gave the claim.
func own(claim *v1alpha1.ClusterClaim) bool {
	return claim.Annotations[ProvisionedAnnotation] == claim.Spec.Value
}

func (c *Controller) create(ctx context.Context) error {
	created, err := c.claim.Create(ctx, c.id, map[string]string{ProvisionedAnnotation: c.id})
	if err != nil {
		return fmt.Errorf("create ClusterClaim %s: %w", v1alpha1.ClaimID, err)
	}
	klog.FromContext(ctx).Info("The cluster has got its id", "id", c.id, "source", c.source)
	return c.agree(ctx, created)
}

// agree says that all is well. A claim that somebody else has made with the same value stays theirs.
func (c *Controller) agree(ctx context.Context, claim *v1alpha1.ClusterClaim) error {
	condition := metav1.Condition{
		Type: v1alpha1.ClaimProvisioned, Status: metav1.ConditionTrue, Reason: reasonProvisioned, Message: fmt.Sprintf("The id is from %s.", c.told()),
	}
	if !own(claim) {
		condition.Reason, condition.Message = reasonSame, fmt.Sprintf("Somebody else has chosen the id, and %s says the same.", c.told())
	}
	_, err := c.claim.SetCondition(ctx, claim, condition)
	return err
}

// change gives an own claim another value, which the API refuses while the cluster is a member of a set.
func (c *Controller) change(ctx context.Context, claim *v1alpha1.ClusterClaim) error {
	next := claim.DeepCopy()
	next.Spec.Value = c.id
	next.Annotations[ProvisionedAnnotation] = c.id
	changed, err := c.claim.Update(ctx, next)
	if apierrors.IsInvalid(err) {
		return c.differ(ctx, claim, reasonMember, fmt.Sprintf(
			"The id is %q and %s says %q; it cannot change while the cluster is a member of a set: delete the ClusterClaim %s to leave the set.",
			claim.Spec.Value, c.told(), c.id, v1alpha1.ClaimClusterSet))
	}
	if err != nil {
		return fmt.Errorf("update ClusterClaim %s: %w", claim.Name, err)
	}
	klog.FromContext(ctx).Info("The cluster has got another id", "id", c.id, "former", claim.Spec.Value, "source", c.source)
	return c.agree(ctx, changed)
}

// differ says that the claim is not what the source says.
func (c *Controller) differ(ctx context.Context, claim *v1alpha1.ClusterClaim, reason, message string) error {
	changed, err := c.claim.SetCondition(ctx, claim, metav1.Condition{
		Type: v1alpha1.ClaimProvisioned, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
	if err == nil && changed {
		c.claim.Warn(ctx, claim, actionProvision, reason, message)
	}
	return err
}

// told names the source.
func (c *Controller) told() string {
	if c.source == SourceLiteral {
		return "--cluster-id"
	}
	return "the uid of the namespace " + metav1.NamespaceSystem
}
