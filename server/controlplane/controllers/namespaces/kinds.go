// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// fresh is how old an answer of discovery may be.
const fresh = time.Second

// kind is one that namespaces may have objects of.
type kind struct {
	schema.GroupVersionResource
	// collection tells that all objects can be deleted in one request.
	collection bool
}

// answer is what discovery said.
type answer struct {
	asked time.Time
	kinds []kind
	// failure names the group-versions whose servers did not answer, and unparsable those that are no group-versions.
	failure, unparsable error
}

// kinds asks which kinds there are. Deletions that go on side by side share an answer.
type kinds struct {
	client discovery.DiscoveryInterfaceWithContext
	// last has the latest answer, and is empty while somebody asks.
	last chan answer
}

func newKinds(client *discovery.DiscoveryClient) *kinds {
	// The aggregated documents are up to a minute old where another server's kinds are concerned, and do not fail with the server.
	k := &kinds{client: client.WithLegacyWithContext(context.Background()), last: make(chan answer, 1)}
	k.last <- answer{}
	return k
}

// since returns an answer that was asked for after the given time, and is not old. The error is the context's.
func (k *kinds) since(ctx context.Context, notBefore time.Time) (answer, error) {
	var last answer
	select {
	case last = <-k.last:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	if last.asked.IsZero() || last.asked.Before(notBefore) || time.Since(last.asked) > fresh {
		last = k.ask(ctx)
	}
	k.last <- last
	return last, ctx.Err()
}

func (k *kinds) ask(ctx context.Context) answer {
	out := answer{asked: time.Now()}
	var lists []*metav1.APIResourceList
	lists, out.failure = discovery.ServerPreferredNamespacedResourcesWithContext(ctx, k.client)
	var unparsable []error
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			unparsable = append(unparsable, err)
			continue
		}
		for _, resource := range list.APIResources {
			collection := slices.Contains(resource.Verbs, "deletecollection")
			if slices.Contains(resource.Verbs, "list") && (collection || slices.Contains(resource.Verbs, "delete")) {
				out.kinds = append(out.kinds, kind{version.WithResource(resource.Name), collection})
			}
		}
	}
	out.unparsable = errors.Join(unparsable...)
	return out
}
