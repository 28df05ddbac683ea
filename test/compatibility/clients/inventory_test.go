// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

const root = "../../.."

// inventory names all that a server has, but what comes and goes by itself.
func inventory(ctx context.Context, server *framework.Server) ([]string, error) {
	client, err := metadata.NewForConfig(server.Config)
	if err != nil {
		return nil, err
	}
	lists, err := server.Kubernetes.Discovery().ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Name == "events" || resource.Name == "leases" {
				continue
			}
			items, err := client.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", resource.Name, err)
			}
			for i := range items.Items {
				found = append(found, fmt.Sprintf("%s.%s %s/%s", resource.Name, version.Group, items.Items[i].Namespace, items.Items[i].Name))
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// settledInventory is what a server has when its controllers have made what they make at a start: nothing new for a while.
func settledInventory(t *testing.T, server *framework.Server) (last []string) {
	t.Helper()
	const quiet = 3 * time.Second
	since := time.Now()
	framework.Eventually(t, time.Minute, func() error {
		now, err := inventory(t.Context(), server)
		if err != nil {
			return err
		}
		if !slices.Equal(now, last) {
			last, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return fmt.Errorf("the server still makes something: it has %d objects", len(now))
		}
		return nil
	})
	return last
}

// wantInventory waits until a server has what it had before, and nothing else.
func wantInventory(t *testing.T, server *framework.Server, want []string) {
	t.Helper()
	err := poll.Until(t.Context(), time.Minute, func(ctx context.Context) error {
		got, err := inventory(ctx, server)
		if err != nil {
			return err
		}
		diff := cmp.Diff(want, got)
		return poll.Want(diff == "", diff)
	})
	if err != nil {
		t.Errorf("the server does not have what it had before (-want,+got): %v", err)
	}
}
