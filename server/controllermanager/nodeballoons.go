// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllermanager

import (
	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/controllers/nodeballoons"
)

// nodeBalloonsLease is made only where balloons are wanted.
const nodeBalloonsLease = "annex-node-balloons"

// nodeBalloons is the group of the controller that resizes nodes.
func (g *Groups) nodeBalloons() leadership.Group {
	return leadership.Group{Name: "nodeballoons", Lease: g.lease(nodeBalloonsLease), New: func(term *leadership.Term) ([]leadership.Runnable, error) {
		o := *g.NodeBalloons
		o.Host = term.Client()
		controller, err := nodeballoons.New(o)
		if err != nil {
			return nil, err
		}
		return []leadership.Runnable{{Name: "nodeballoons", Run: controller.Run}}, nil
	}}
}
