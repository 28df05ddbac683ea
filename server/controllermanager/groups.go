// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllermanager

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kube-annex/annex/controllers/clusterclaims/clusterid"
	"github.com/kube-annex/annex/controllers/clusterclaims/hub"
	"github.com/kube-annex/annex/controllers/clusterclaims/membership"
	"github.com/kube-annex/annex/controllers/featureobserver"
	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/controllers/nodeballoons"
	"github.com/kube-annex/annex/server/internal/options"
)

// Groups configure what is led.
type Groups struct {
	// LeaseNamespace is where the Leases are.
	LeaseNamespace string
	// Observer reads the feature gates of components that do not report by themselves.
	Observer *featureobserver.Options
	// ClusterID provides the ClusterClaim id.k8s.io.
	ClusterID *clusterid.Options
	// Hub is where the ids of the clusters of a set are reserved, and Membership keeps the reservation of this one.
	Hub        hub.Options
	Membership membership.Options
	// NodeBalloons makes nodes as large as their NodeBalloons say.
	NodeBalloons *nodeballoons.Options
}

// NewGroups returns all groups with their defaults, and Leases in annex-system.
func NewGroups() Groups {
	return Groups{LeaseNamespace: options.NewService().Namespace, Observer: featureobserver.NewOptions(), ClusterID: clusterid.NewOptions(), NodeBalloons: nodeballoons.NewOptions()}
}

// AddFlags adds the flags of all controllers, most of them in a section of each controller.
func (g *Groups) AddFlags(sections *cliflag.NamedFlagSets) {
	sections.FlagSet("leader election").StringVar(&g.LeaseNamespace, "leader-elect-namespace", g.LeaseNamespace, "Namespace of the Leases under which controllers run in one process at a time.")
	g.Observer.AddFlags(sections.FlagSet("feature observer"))
	g.ClusterID.AddFlags(sections.FlagSet("cluster identity"))
	g.Hub.AddFlags(sections.FlagSet("cluster identity"))
	g.NodeBalloons.AddFlags(sections.FlagSet("node balloons"))
}

// Validate reports every mistake.
func (g *Groups) Validate() []error {
	var errs []error
	for _, problem := range validation.IsDNS1123Label(g.LeaseNamespace) {
		errs = append(errs, fmt.Errorf("--leader-elect-namespace %q is not the name of a namespace: %s", g.LeaseNamespace, problem))
	}
	errs = append(errs, g.Observer.Validate()...)
	errs = append(errs, g.ClusterID.Validate()...)
	errs = append(errs, g.Hub.Validate()...)
	return append(errs, g.NodeBalloons.Validate()...)
}

// List returns one group for each Lease, of those that have something to do.
func (g *Groups) List() []leadership.Group {
	groups := []leadership.Group{
		{Name: "observer", Lease: g.lease("annex-observer"), New: g.observer},
	}
	if g.ClusterID.Enabled() || g.Hub.Enabled() {
		groups = append(groups, g.clusterClaims())
	}
	if g.NodeBalloons.Mode != nodeballoons.Off {
		groups = append(groups, g.nodeBalloons())
	}
	return groups
}

// OwnsLease tells whether a Lease of the name, in the namespace of the Leases, is of a group or of a replica that is a member.
func OwnsLease(name string) bool {
	groups := NewGroups()
	return strings.HasPrefix(name, members+"-") || name == nodeBalloonsLease ||
		slices.ContainsFunc(groups.List(), func(g leadership.Group) bool { return g.Lease.Name == name })
}

func (g *Groups) lease(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: g.LeaseNamespace, Name: name}
}

func (g *Groups) observer(term *leadership.Term) ([]leadership.Runnable, error) {
	o := *g.Observer
	o.Host = term.Client()
	controller, err := featureobserver.New(o)
	if err != nil {
		return nil, err
	}
	return []leadership.Runnable{{Name: "observer", Run: controller.Run}}, nil
}
