// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/server/healthz"
)

// HealthCheck reads from etcd with quorum; it is meant for livez and readyz.
func (b *Backend) HealthCheck() healthz.HealthChecker {
	return healthz.NamedCheck("etcd", func(request *http.Request) error {
		if err := probe(request.Context(), b.Client.Client, probeTimeout); err != nil {
			return fmt.Errorf("reading from etcd: %w", err)
		}
		return nil
	})
}

// SpaceCheck fails while an embedded etcd is full and takes no writes. It is meant for readyz alone: a restart would not help.
func (b *Backend) SpaceCheck() healthz.HealthChecker {
	return healthz.NamedCheck("etcd-space", func(*http.Request) error {
		if b.space == nil {
			return nil
		}
		if reason := b.space.full.Load(); reason != nil {
			return errors.New(*reason)
		}
		return nil
	})
}
