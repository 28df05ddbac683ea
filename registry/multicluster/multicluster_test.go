// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/kube-annex/annex/apis/multicluster/install"
	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/openapi"
	"github.com/kube-annex/annex/registry/multicluster"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

func TestMain(m *testing.M) { resourcetest.Main(m) }

func options() resourcetest.Options {
	scheme := resource.NewScheme(install.Install)
	return resourcetest.Options{
		Scheme:      scheme,
		Codecs:      serializer.NewCodecFactory(scheme),
		Definitions: openapi.GetOpenAPIDefinitions,
		Version:     v1alpha1.SchemeGroupVersion,
		Install:     multicluster.Install,
	}
}

func TestClusterClaim(t *testing.T) {
	t.Parallel()
	resourcetest.Run(t, resourcetest.Start(t, options()), resourcetest.Case{
		Resource:       v1alpha1.SchemeGroupVersion.WithResource("clusterclaims"),
		Kind:           "ClusterClaim",
		Names:          []string{"region.example.com", "tier.example.com", "zone.example.com"},
		Spec:           map[string]any{"value": "eu-west-1"},
		ChangedSpec:    map[string]any{"value": "eu-west-2"},
		Status:         map[string]any{"observedGeneration": int64(1)},
		InvalidSpec:    map[string]any{"value": ""},
		InvalidMessage: "spec.value",
		Columns:        []string{"Name", "Value", "Age"},
		ShortNames:     []string{"cc"},
	})
}

func TestClusterIDReservation(t *testing.T) {
	t.Parallel()
	spec := func(set, id string) map[string]any {
		return map[string]any{"clusterSet": set, "clusterID": id, "clusterUID": "u-1", "claimUID": "u-2"}
	}
	server := resourcetest.Start(t, options())
	clients := claimsOn(t, server)
	reservation := clients.object("ClusterIDReservation", v1alpha1.ReservationName("fleet", "one"), spec("fleet", "one"))
	created := clients.mustCreate(t, "clusteridreservations", reservation)
	if got := nested(created, "status", "owner"); got != "tester" {
		t.Errorf("owner: got %q, want the authenticated user", got)
	}
	for name, change := range map[string]func(map[string]any){
		"clusterSet": func(s map[string]any) { s["clusterSet"] = "other" },
		"clusterID":  func(s map[string]any) { s["clusterID"] = "two" },
		"clusterUID": func(s map[string]any) { s["clusterUID"] = "u-3" },
		"claimUID":   func(s map[string]any) { s["claimUID"] = "u-3" },
	} {
		changed := created.DeepCopy()
		change(changed.Object["spec"].(map[string]any))
		if err := clients.update(t, "clusteridreservations", changed); !isInvalid(err) || !strings.Contains(err.Error(), "spec") {
			t.Errorf("changing %s: got %v, want 422", name, err)
		}
	}
	misnamed := clients.object("ClusterIDReservation", v1alpha1.ReservationName("fleet", "two"), spec("fleet", "one"))
	if err := clients.create(t, "clusteridreservations", misnamed); !isInvalid(err) || !strings.Contains(err.Error(), "metadata.name") {
		t.Errorf("a reservation under another pair's name: got %v, want 422 at metadata.name", err)
	}
}

func TestFirstLineIsCut(t *testing.T) {
	t.Parallel()
	server := resourcetest.Start(t, options())
	clients := claimsOn(t, server)
	clients.mustCreate(t, "clusterclaims", clients.object("ClusterClaim", "long.example.com", map[string]any{"value": strings.Repeat("ü", 100) + "\nsecond"}))
	clients.mustCreate(t, "clusterclaims", clients.object("ClusterClaim", "short.example.com", map[string]any{"value": "first\nsecond"}))
	clients.mustCreate(t, "clusterclaims", clients.object("ClusterClaim", "windows.example.com", map[string]any{"value": "first\r\nsecond"}))
	want := map[string]string{"long.example.com": strings.Repeat("ü", 64), "short.example.com": "first", "windows.example.com": "first"}
	for name, value := range clients.column(t, "clusterclaims", "Value") {
		if value != want[name] {
			t.Errorf("%s: column is %q, want %q", name, value, want[name])
		}
	}
}
