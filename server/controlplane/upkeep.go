// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/server/controlplane/controllers/identity"
	"github.com/kube-annex/annex/server/controlplane/controllers/policystatus"
	"github.com/kube-annex/annex/server/controlplane/controllers/quota"
	"github.com/kube-annex/annex/server/controlplane/controllers/storagemigration"
)

func (s *Server) quota(t *term) (func(context.Context) error, error) {
	controller, err := quota.New(t.config, t.informers.Core().V1().ResourceQuotas())
	if err != nil {
		return nil, err
	}
	return s.onceReady(controller.Run), nil
}

func (s *Server) storageMigration(t *term) (func(context.Context) error, error) {
	controller, err := storagemigration.New(t.config, t.informers.Storagemigration().V1().StorageVersionMigrations(), s.settle())
	if err != nil {
		return nil, err
	}
	return s.onceReady(controller.Run), nil
}

func (s *Server) policyStatus(t *term) (func(context.Context) error, error) {
	return policystatus.New(t.client, t.informers.Admissionregistration().V1().ValidatingAdmissionPolicies()).Run, nil
}

func (s *Server) expiredIdentities(t *term) (func(context.Context) error, error) {
	return identity.NewCollector(t.client.CoordinationV1().Leases(metav1.NamespaceSystem), Name).Run, nil
}

// identity returns what tells clients of this replica.
func (s *Server) identity(c *chain, namespaces <-chan struct{}) (func(context.Context), error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("tell clients of this server by the host name: %w", err)
	}
	return identity.NewRenewer(c.client.CoordinationV1().Leases(metav1.NamespaceSystem), Name, c.config.APIServerID, hostname, namespaces).Run, nil
}
