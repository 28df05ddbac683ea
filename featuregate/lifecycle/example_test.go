// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"fmt"

	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/generated/clientset/versioned/fake"
)

// fakeLeases tells informers that fakes lack a part of the API.
type fakeLeases struct {
	coordinationclient.LeasesGetter
}

func (fakeLeases) IsWatchListSemanticsUnSupported() bool { return true }

// An engine announces the features of a server and does the tasks of turning them on or off until its context ends; here that is as
// soon as one has run.
func ExampleEngine() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, err := lifecycle.New(lifecycle.Options{
		Component: "frobber", Instance: "frobber-0", Version: "v1.4.0", Namespace: "frob-system",
		Client: fake.NewSimpleClientset(), Leases: fakeLeases{kubernetesfake.NewClientset().CoordinationV1()}, // the clients of a cluster
		Features: []lifecycle.Feature{{
			Name: "FastFrob", Default: v1alpha1.ValueDisabled, Configured: v1alpha1.ValueEnabled, Source: v1alpha1.SourceCommandLine,
			On: []lifecycle.Task{{Name: "BuildIndex", Run: func(_ context.Context, progress *lifecycle.Progress) error {
				fmt.Println("building the index")
				progress.Done(1, 1)
				stop()
				return nil
			}}},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(engine.Run(ctx))
	// Output:
	// building the index
	// <nil>
}
