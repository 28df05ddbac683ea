// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllermanager

import (
	"github.com/kube-annex/annex/controllers/clusterclaims/clusterid"
	"github.com/kube-annex/annex/controllers/clusterclaims/hub"
	"github.com/kube-annex/annex/controllers/clusterclaims/membership"
	"github.com/kube-annex/annex/controllers/leadership"
)

// clusterClaims is the group of the controllers of ClusterClaims, as far as they have something to do.
func (g *Groups) clusterClaims() leadership.Group {
	client, hubErr := g.hubClient()
	return leadership.Group{Name: "clusterclaims", Lease: g.lease("annex-clusterclaims"), New: func(term *leadership.Term) ([]leadership.Runnable, error) {
		if hubErr != nil {
			return nil, hubErr
		}
		var runners []leadership.Runnable
		if g.ClusterID.Enabled() {
			o := *g.ClusterID
			o.Host = term.Client()
			controller, err := clusterid.New(o)
			if err != nil {
				return nil, err
			}
			runners = append(runners, leadership.Runnable{Name: "clusterid", Run: controller.Run})
		}
		if client != nil {
			o := g.Membership
			o.Host, o.Hub = term.Client(), client
			controller, err := membership.New(o)
			if err != nil {
				return nil, err
			}
			runners = append(runners, leadership.Runnable{Name: "membership", Run: controller.Run})
		}
		return runners, nil
	}}
}

// hubClient returns a client for all terms, or nil if there is no hub.
func (g *Groups) hubClient() (*hub.Client, error) {
	if !g.Hub.Enabled() {
		return nil, nil //nolint:nilnil // there is none
	}
	config, err := g.Hub.ClientConfig()
	if err != nil {
		return nil, err
	}
	return hub.NewClient(config)
}
