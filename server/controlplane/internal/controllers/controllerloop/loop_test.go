// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerloop_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/controllerloop"
)

// TestAPanicEndsTheRunAndNotTheProcess breaks each function that a controller gives to its loop, in the goroutine that calls it.
func TestAPanicEndsTheRunAndNotTheProcess(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*controllerloop.Loop){
		"a worker":         func(l *controllerloop.Loop) { l.Reconcile = func(context.Context, string) error { panic("broke") } },  //nolint:forbidigo // what is tested
		"an event handler": func(l *controllerloop.Loop) { l.Sources[0].Keys = func(any) []string { panic("broke") } },             //nolint:forbidigo // what is tested
		"what runs beside": func(l *controllerloop.Loop) { l.Background = func(context.Context, func(string)) { panic("broke") } }, //nolint:forbidigo // what is tested
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			factory := informers.NewSharedInformerFactory(fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}), 0)
			loop := controllerloop.Loop{
				Name:      "test",
				Sources:   []controllerloop.Source{{Informer: factory.Core().V1().Namespaces().Informer(), Keys: func(any) []string { return []string{"a"} }}},
				Reconcile: func(context.Context, string) error { return nil },
			}
			change(&loop)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := leadership.RunWithoutLease(ctx, func() ([]leadership.Runnable, error) {
				return []leadership.Runnable{leadership.Informers("informers", factory), {Name: "loop", Run: loop.Run}}, nil
			})
			if err == nil || !strings.Contains(err.Error(), "runner loop: panic: broke") {
				t.Errorf("the run ended with %v, want the panic", err)
			}
		})
	}
}
