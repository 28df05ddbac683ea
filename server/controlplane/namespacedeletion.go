// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"time"

	"github.com/kube-annex/annex/server/controlplane/controllers/namespaces"
)

// A namespace is kept for a while after its deletion was seen, so that no object is created in it that nobody deletes: in a server of
// its own for creations that were under way, and where there are replicas until these have heard of the deletion, as long as upstream.
const (
	settleAlone    = time.Second
	settleReplicas = 5 * time.Second
)

func (s *Server) namespaceDeletion(t *term) (func(context.Context) error, error) {
	controller, err := namespaces.New(t.config, t.informers.Core().V1().Namespaces(), s.settle())
	if err != nil {
		return nil, err
	}
	return s.onceReady(controller.Run), nil
}

// settle is how long it takes until all replicas have heard of a change.
func (s *Server) settle() time.Duration {
	if s.backend.Owner != "" {
		return settleAlone
	}
	return settleReplicas
}
