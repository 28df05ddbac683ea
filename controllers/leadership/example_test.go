// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/controllers/leadership"
)

// An elector runs until its context ends; here that is as soon as the group has led.
func ExampleElector() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	options := leadership.NewOptions()
	options.Client = admin // the *rest.Config of the cluster
	elector, err := leadership.New(options, leadership.Group{
		Name:  "frobs",
		Lease: types.NamespacedName{Namespace: "default", Name: "example-frobs"},
		New: func(term *leadership.Term) ([]leadership.Runnable, error) {
			fmt.Println("building the runnables of transition", term.Fence().Transitions)
			return []leadership.Runnable{{Name: "frobber", Run: func(ctx context.Context) error {
				fmt.Println("leading")
				stop()
				<-ctx.Done()
				fmt.Println("stopped")
				return nil
			}}}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(elector.Run(ctx))
	// Output:
	// building the runnables of transition 0
	// leading
	// stopped
	// <nil>
}
