// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/client-go/dynamic"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/multicluster/install"
	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/openapi"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

func TestRulesKnowOfDryRuns(t *testing.T) {
	t.Parallel()
	var dry []bool // by the rules of one request after the other
	note := func(ctx context.Context) error {
		dry = append(dry, resource.IsDryRun(ctx))
		return nil
	}
	type claim = *multicluster.ClusterClaim
	kind := resource.Kind[claim]{
		Plural: "clusterclaims", Singular: "clusterclaim", Scope: resource.Cluster,
		NewList: func() runtime.Object { return &multicluster.ClusterClaimList{} },
		Rules: resource.Rules[claim]{
			Create: func(ctx context.Context, _ resource.Peers[claim], _ claim) error { return note(ctx) },
			Update: func(ctx context.Context, _ resource.Peers[claim], _, _ claim) error { return note(ctx) },
			Delete: func(ctx context.Context, _ resource.Peers[claim], _ claim) error { return note(ctx) },
		},
	}
	scheme := resource.NewScheme(install.Install)
	server := resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme), Definitions: openapi.GetOpenAPIDefinitions,
		Version: v1alpha1.SchemeGroupVersion, Install: kind.Install, Etcd: testserver.RunEtcd(t, nil).Client,
	})
	client, err := dynamic.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	claims := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("clusterclaims"))
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "ClusterClaim", "metadata": map[string]any{"name": "one"}, "spec": map[string]any{"value": "one"},
	}}
	options := func(dryRun bool) []string {
		if dryRun {
			return []string{metav1.DryRunAll}
		}
		return nil
	}
	create := func(ctx context.Context, dryRun bool) error {
		_, err := claims.Create(ctx, object, metav1.CreateOptions{DryRun: options(dryRun)})
		return err
	}
	update := func(ctx context.Context, dryRun bool) error {
		current, err := claims.Get(ctx, "one", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.SetLabels(map[string]string{"a": "b"})
		_, err = claims.Update(ctx, current, metav1.UpdateOptions{DryRun: options(dryRun)})
		return err
	}
	remove := func(ctx context.Context, dryRun bool) error {
		return claims.Delete(ctx, "one", metav1.DeleteOptions{DryRun: options(dryRun)})
	}
	removeAll := func(ctx context.Context, dryRun bool) error {
		return claims.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: options(dryRun)}, metav1.ListOptions{})
	}
	for _, step := range []struct {
		verb string
		dry  bool
		do   func(ctx context.Context, dryRun bool) error
	}{
		{"create", true, create},
		{"create", false, create},
		{"update", true, update},
		{"update", false, update},
		{"delete", true, remove},
		{"delete", false, remove},
		{"create again", false, create},
		{"deletecollection", true, removeAll},
		{"deletecollection", false, removeAll},
	} {
		dry = nil
		if err := step.do(t.Context(), step.dry); err != nil {
			t.Fatalf("%s: %v", step.verb, err)
		}
		if len(dry) == 0 {
			t.Fatalf("%s: no rule ran", step.verb)
		}
		for _, got := range dry {
			if got != step.dry {
				t.Errorf("%s: a rule takes it for a dry run: %t, want %t", step.verb, got, step.dry)
			}
		}
	}
}
