// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/controllers/clusterclaims/hub"
	multiclusterregistry "github.com/kube-annex/annex/registry/multicluster"
)

// clusterUIDTimeout is how long the host may take to tell the cluster's uid, which is asked once.
const clusterUIDTimeout = 5 * time.Second

// membership reserves the cluster's id at the hub before the cluster joins a set. What becomes of reservations afterwards is the
// business of the controllers (controllers/clusterclaims/membership).
type membership struct {
	hub        *hub.Client
	namespaces corev1.NamespaceInterface
	cluster    atomic.Pointer[types.UID]
}

// joining returns whom the registry asks before the cluster joins a set, or nil if there is no hub.
func (o *completedOptions) joining(namespaces corev1.NamespaceInterface) (multiclusterregistry.Joining, error) {
	if !o.Hub.Enabled() {
		return nil, nil //nolint:nilnil // nobody
	}
	config, err := o.Hub.ClientConfig()
	if err != nil {
		return nil, err
	}
	client, err := hub.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", hub.KubeconfigFlag, err)
	}
	return (&membership{hub: client, namespaces: namespaces}).reserve, nil
}

// reserve is a multiclusterregistry.Joining.
func (m *membership) reserve(ctx context.Context, set, id *multicluster.ClusterClaim, dryRun bool) error {
	cluster, err := m.clusterUID(ctx)
	if err != nil {
		return err
	}
	err = m.hub.Reserve(ctx, hub.Membership{Set: set.Spec.Value, ID: id.Spec.Value, Cluster: cluster, Claim: set.UID}, dryRun)
	held := (*hub.HeldError)(nil)
	switch {
	case err == nil, ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &held):
		return apierrors.NewInvalid(multicluster.Kind("ClusterClaim"), set.Name, field.ErrorList{field.Forbidden(field.NewPath("spec", "value"), fmt.Sprintf(
			"%v; change the ClusterClaim %s to another id, or have the other cluster leave the set first", err, multicluster.ClaimID))})
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf(
		"a cluster joins a set only after its id was reserved at the hub of the set, and %v; try again when that is put right", err))
}

// clusterUID is the uid of the namespace kube-system, which stays as long as the cluster.
func (m *membership) clusterUID(ctx context.Context) (types.UID, error) {
	if known := m.cluster.Load(); known != nil {
		return *known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, clusterUIDTimeout)
	defer cancel()
	namespace, err := m.namespaces.Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf(
			"the id cannot be reserved at the hub before the uid of the namespace %s is known: %v; try again", metav1.NamespaceSystem, err))
	}
	m.cluster.Store(&namespace.UID)
	return namespace.UID, nil
}
