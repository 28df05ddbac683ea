// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"encoding/json"
	"fmt"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"

	"github.com/kube-annex/annex/test/framework"
)

type definitionsClient = apiextensionsclient.Interface

// version returns what aggregated discovery has of v1 of a group, if it has it.
func (w *world) version(t *testing.T, group string) (apidiscoveryv2.APIVersionDiscovery, error) {
	t.Helper()
	got := get(t, w.Config, "/apis", "Accept", aggregatedDiscovery)
	list := apidiscoveryv2.APIGroupDiscoveryList{}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil {
		t.Fatalf("aggregated discovery: %v: %.200s", err, got.body)
	}
	for _, item := range list.Items {
		for _, version := range item.Versions {
			if item.Name == group && version.Version == "v1" {
				return version, nil
			}
		}
	}
	return apidiscoveryv2.APIVersionDiscovery{}, fmt.Errorf("%s is not in discovery", group)
}

// wantThings waits until discovery has one resource in v1 of a group, as fresh as it is wanted.
func (w *world) wantThings(t *testing.T, group string, fresh apidiscoveryv2.DiscoveryFreshness) apidiscoveryv2.APIResourceDiscovery {
	t.Helper()
	var found apidiscoveryv2.APIResourceDiscovery
	framework.Eventually(t, patience, func() error {
		version, err := w.version(t, group)
		if err != nil {
			return err
		}
		if len(version.Resources) != 1 || version.Freshness != fresh {
			return fmt.Errorf("%s is in discovery as %+v, want one resource that is %s", group, version, fresh)
		}
		found = version.Resources[0]
		return nil
	})
	return found
}
