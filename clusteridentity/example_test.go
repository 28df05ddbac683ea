// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusteridentity_test

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/clusteridentity"
	"github.com/kube-annex/annex/generated/clientset/versioned/fake"
)

// A program follows the claims with Source.Run, which takes the configuration of a client. This example has a fake client, and RunWith.
func ExampleSource_WaitForMembership() {
	claim := func(name, value string) *v1alpha1.ClusterClaim {
		return &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterClaimSpec{Value: value}}
	}
	client := fake.NewSimpleClientset(claim("id.k8s.io", "c1"), claim("clusterset.k8s.io", "fleet"))

	cluster := clusteridentity.New()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = cluster.RunWith(ctx, client) })
	identity, err := cluster.WaitForMembership(ctx)
	stop()
	running.Wait()
	fmt.Println(identity.ID, identity.ClusterSet, err)
	// Output: c1 fleet <nil>
}

func ExampleDNSName() {
	name, err := clusteridentity.DNSName("db-0", "c1", "db", "prod")
	fmt.Println(name, err)
	// Output: db-0.c1.db.prod.svc.clusterset.local <nil>
}
