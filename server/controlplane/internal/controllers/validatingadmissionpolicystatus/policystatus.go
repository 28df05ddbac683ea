// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validatingadmissionpolicystatus says in the status of ValidatingAdmissionPolicies what is wrong with the types in their expressions, by the schemas of
// the kinds that they match. A MutatingAdmissionPolicy has no status.
//
// A policy is looked at once for each change of its spec, as in Kubernetes. Kinds and schemas are asked for then, and not kept; without
// policies there are none, and no compiler either.
package validatingadmissionpolicystatus

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	applyadmissionregistrationv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	informers "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	typedadmissionregistrationv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	listers "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/controllerloop"
)

// fieldManager is the name that it has in Kubernetes, so that it takes over what a kube-controller-manager has written.
const fieldManager = "validatingadmissionpolicy-status"

// Controller writes the status of policies.
type Controller struct {
	informer  cache.SharedIndexInformer
	lister    listers.ValidatingAdmissionPolicyLister
	policies  typedadmissionregistrationv1.ValidatingAdmissionPolicyInterface
	discovery discovery.DiscoveryInterface
}

// New returns a controller that follows the informer, which others start.
func New(client kubernetes.Interface, informer informers.ValidatingAdmissionPolicyInformer) *Controller {
	return &Controller{
		informer: informer.Informer(), lister: informer.Lister(),
		policies: client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), discovery: client.Discovery(),
	}
}

// Run checks policies until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllerloop.Loop{
		Name: "policy_status", Reconcile: c.check,
		Sources: []controllerloop.Source{{Informer: c.informer, Keys: func(obj any) []string {
			if policy, ok := obj.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok && !checked(policy) {
				return []string{policy.Name}
			}
			return nil
		}}},
	}.Run(ctx)
}

func checked(policy *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	return policy.Generation <= policy.Status.ObservedGeneration
}

func (c *Controller) check(ctx context.Context, name string) error {
	policy, err := c.lister.Get(name)
	if apierrors.IsNotFound(err) || err == nil && checked(policy) {
		return nil
	}
	if err != nil {
		return err
	}
	checker := &validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: c.discovery},
		RestMapper:     restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.discovery)),
	}
	types := applyadmissionregistrationv1.TypeChecking()
	for _, warning := range checker.Check(policy) {
		types.WithExpressionWarnings(applyadmissionregistrationv1.ExpressionWarning().WithFieldRef(warning.FieldRef).WithWarning(warning.Warning))
	}
	status := applyadmissionregistrationv1.ValidatingAdmissionPolicyStatus().WithObservedGeneration(policy.Generation).WithTypeChecking(types)
	_, err = c.policies.ApplyStatus(ctx, applyadmissionregistrationv1.ValidatingAdmissionPolicy(name).WithUID(policy.UID).WithStatus(status),
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is another one now, of which an event will tell
	}
	if err != nil {
		return fmt.Errorf("write its status: %w", err)
	}
	return nil
}
