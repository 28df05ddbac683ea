// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	basegate "k8s.io/component-base/featuregate"
)

// frobber is what the server does while the feature is on: it writes the size of each Frob into its status.
type frobber struct {
	gates basegate.FeatureGate
	frobs dynamic.NamespaceableResourceInterface
	// pass is held during a pass over all Frobs.
	pass sync.Mutex
}

// changed returns when nothing of before the change is under way; until then the gate does not answer that it has changed.
func (f *frobber) changed(context.Context, bool) {
	f.pass.Lock()
	defer f.pass.Unlock()
}

func (f *frobber) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if err := f.frobAll(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "feature-server: frobbing:", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (f *frobber) frobAll(ctx context.Context) error {
	f.pass.Lock()
	defer f.pass.Unlock()
	if !f.gates.Enabled(frobbing) {
		return nil
	}
	list, err := f.frobs.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		frob := &list.Items[i]
		size, _, _ := unstructured.NestedInt64(frob.Object, "spec", "size")
		if frobbed, found, _ := unstructured.NestedInt64(frob.Object, "status", "frobbed"); found && frobbed == size {
			continue
		}
		if err := unstructured.SetNestedField(frob.Object, size, "status", "frobbed"); err != nil {
			return err
		}
		if _, err := f.frobs.UpdateStatus(ctx, frob, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
