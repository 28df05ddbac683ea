// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	featuresinstall "github.com/kube-annex/annex/apis/features/install"
	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/apis/node/install"
	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/generated/openapi"
	"github.com/kube-annex/annex/registry/features"
	"github.com/kube-annex/annex/registry/node"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

// startFor serves NodeBalloons, of which some fields are gated where gated is set; else it is a kind without any.
func startFor(b *testing.B, gated bool) *versioned.Clientset {
	b.Helper()
	permits := features.NewPermits("annex-system", func(string) bool { return false })
	scheme := resource.NewScheme(install.Install, featuresinstall.Install)
	server := resourcetest.Start(b, resourcetest.Options{
		Scheme:      scheme,
		Codecs:      serializer.NewCodecFactory(scheme),
		Definitions: openapi.GetOpenAPIDefinitions,
		Before:      []resourcetest.Group{{Version: featuresv1alpha1.SchemeGroupVersion, Install: permits.Install}},
		Version:     v1alpha1.SchemeGroupVersion,
		Install: func(group *resource.Group) error {
			if gated {
				group.Gate(permits)
			}
			return node.Install(group)
		},
	})
	client, err := versioned.NewForConfig(server.Config)
	if err != nil {
		b.Fatal(err)
	}
	feature, err := client.FeaturesV1alpha1().Features("annex-system").Create(b.Context(),
		&featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "NodeBalloonReclaimPolicy"}}, metav1.CreateOptions{})
	if err == nil {
		feature.Status.State = featuresv1alpha1.StateOn
		_, err = client.FeaturesV1alpha1().Features("annex-system").UpdateStatus(b.Context(), feature, metav1.UpdateOptions{})
	}
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// BenchmarkGatedWrites measures what a create and an update of a kind with a gated field cost, with and without the field, by what
// they cost on a server where nothing is gated. All are done in turns, so that they meet the same load.
func BenchmarkGatedWrites(b *testing.B) {
	plain, gated := startFor(b, false), startFor(b, true)
	hold := v1alpha1.ReclaimHold
	variants := []struct {
		name   string
		client *versioned.Clientset
		policy *v1alpha1.ReclaimPolicy
	}{
		{"ungated", plain, nil}, {"ungated-set", plain, &hold}, {"gated-unset", gated, nil}, {"gated-set", gated, &hold},
	}
	creates, updates := make([][]time.Duration, len(variants)), make([][]time.Duration, len(variants))
	for n := 0; b.Loop(); n++ {
		for i := range variants {
			v := (i + n) % len(variants)
			balloons := variants[v].client.NodeV1alpha1().NodeBalloons()
			balloon := &v1alpha1.NodeBalloon{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d-%d", n, v)}}
			balloon.Spec.NodeSize = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("2")}
			balloon.Spec.ReclaimPolicy = variants[v].policy
			began := time.Now()
			out, err := balloons.Create(b.Context(), balloon, metav1.CreateOptions{})
			if err != nil {
				b.Fatal(err)
			}
			creates[v] = append(creates[v], time.Since(began))
			out.Spec.NodeSize = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("3")}
			began = time.Now()
			if out, err = balloons.Update(b.Context(), out, metav1.UpdateOptions{}); err != nil {
				b.Fatal(err)
			}
			updates[v] = append(updates[v], time.Since(began))
			if (out.Spec.ReclaimPolicy == nil) != (variants[v].policy == nil) {
				b.Fatalf("%s: the policy is %v", variants[v].name, out.Spec.ReclaimPolicy)
			}
		}
	}
	for v, variant := range variants {
		of := v % 2
		if v < 2 {
			b.ReportMetric(float64(median(creates[v]).Microseconds()), variant.name+"-create-µs")
			b.ReportMetric(float64(median(updates[v]).Microseconds()), variant.name+"-update-µs")
			continue
		}
		b.ReportMetric(float64(median(creates[v]))/float64(median(creates[of])), variant.name+"-create-ratio")
		b.ReportMetric(float64(median(updates[v]))/float64(median(updates[of])), variant.name+"-update-ratio")
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
