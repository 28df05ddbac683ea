// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/controlplane/controllers/bootstrappolicy"
	"github.com/kube-annex/annex/server/controlplane/controllers/roleaggregation"
)

// roleAggregation writes as a service account with just the rights for it, where there are roles to say so: what it writes are rights.
func (s *Server) roleAggregation(t *term) (func(context.Context) error, error) {
	config := t.config
	if s.options.serve(roleKinds...) {
		config = rest.CopyConfig(config)
		config.Impersonate.UserName = serviceaccount.MakeUsername(metav1.NamespaceSystem, bootstrappolicy.RoleAggregationController)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make its client: %w", err)
	}
	controller, err := roleaggregation.New(client.RbacV1(), t.informers.Rbac().V1().ClusterRoles())
	if err != nil {
		return nil, err
	}
	return controller.Run, nil
}
