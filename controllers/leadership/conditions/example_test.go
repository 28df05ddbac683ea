// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/controllers/leadership/conditions"
	"github.com/kube-annex/annex/generated/clientset/versioned/fake"
)

// A group leads while the Feature FastFrob is on.
func ExampleFeatureOn() {
	client := fake.NewSimpleClientset(&v1alpha1.Feature{
		ObjectMeta: metav1.ObjectMeta{Namespace: "frob-system", Name: "FastFrob"}, Status: v1alpha1.FeatureStatus{State: v1alpha1.StateOn},
	})
	group := leadership.Group{Name: "frobs", When: conditions.FeatureOn(client, "frob-system", "FastFrob")}

	// The elector of the group runs the condition and leads as it reports.
	ctx, stop := context.WithCancel(context.Background())
	err := group.When(ctx, func(holds bool) {
		fmt.Println("lead:", holds)
		stop()
	})
	fmt.Println(err)
	// Output:
	// lead: true
	// <nil>
}

// A group leads while the API that its controllers work on is served.
func ExampleAPIServed() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	condition := conditions.APIServed(&rest.Config{Host: server.URL}, v1alpha1.SchemeGroupVersion.WithResource("features"))

	ctx, stop := context.WithCancel(context.Background())
	err := condition(ctx, func(holds bool) {
		fmt.Println("lead:", holds)
		stop()
	})
	fmt.Println(err)
	// Output:
	// lead: false
	// <nil>
}
