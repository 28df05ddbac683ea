// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"fmt"
	"slices"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/featuregate"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	nodev1alpha1 "github.com/kube-annex/annex/apis/node/v1alpha1"
	featuresregistry "github.com/kube-annex/annex/registry/features"
	"github.com/kube-annex/annex/server/featuregating"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/openapi"
)

// FeaturesNamespace is where the Features of Annex's own gates are.
const FeaturesNamespace = gates.Namespace

// gated is what the server serves only while Features permit it.
func gated() gates.Gated {
	return gates.Gated{Fields: slices.Concat(featuresv1alpha1.GatedFields(), nodev1alpha1.GatedFields())}
}

// gating has the stored Features decide about what is gated: permits about writes, and the follower about what is shown.
type gating struct {
	permits   *featuresregistry.Permits
	follower  *featuresregistry.Follower
	resources *featuregating.Resources
	publisher *openapi.Publisher
}

// newGating returns the gating of a server with these gates, as flags have set them. A publisher that is given publishes what its giver
// tells it to.
func newGating(gates featuregate.MutableVersionedFeatureGate, publisher *openapi.Publisher) (*gating, error) {
	all, known := gated(), gates.GetAll()
	for _, field := range all.Fields {
		if _, ok := known[featuregate.Feature(field.Gate)]; !ok {
			return nil, fmt.Errorf("the server's feature gates lack %s, which gates %v of %s; add it to server/featuregating/gates", field.Gate, field.Path, field.Kind.Kind)
		}
	}
	g := &gating{publisher: publisher}
	g.permits = featuresregistry.NewPermits(FeaturesNamespace, func(gate string) bool {
		_, ok := known[featuregate.Feature(gate)]
		return ok && gates.Enabled(featuregate.Feature(gate))
	})
	g.follower = featuresregistry.NewFollower(g.permits)
	g.resources = featuregating.NewResources(all.Resources, g.follower.Permission)
	g.follower.OnChange(g.resources.Update)
	if g.publisher == nil {
		permitted := g.resources.Published(g.follower.Permitted)
		g.publisher = openapi.NewPublisher(all, permitted)
		g.follower.OnChange(func() { g.publisher.Publish(permitted) })
	}
	return g, nil
}

func (g *gating) applyTo(config *genericapiserver.Config) {
	g.publisher.ApplyTo(config)
	g.resources.ApplyTo(config)
}
