// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import "context"

// onceReady has a controller begin when this server is ready. Before that discovery lacks custom resources, and a controller that acts on
// which kinds there are would take them for gone: what is in a namespace, or depends on an owner.
func (s *Server) onceReady(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-s.ready:
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}
