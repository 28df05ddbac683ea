// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/controllers/leadership"
)

// brokenClock panics when the stack of its caller has the function.
type brokenClock struct {
	clock.WithTicker
	caller string
}

func (c brokenClock) Now() time.Time {
	if strings.Contains(string(debug.Stack()), c.caller) {
		panic("the clock broke in " + c.caller) //nolint:forbidigo // what is tested
	}
	return c.WithTicker.Now()
}

// oneNode serves a cluster with one node and nothing else.
func oneNode(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("sendInitialEvents") != "" {
			w.WriteHeader(http.StatusUnprocessableEntity) // as a server that cannot stream lists
			return
		}
		if r.URL.Query().Get("watch") != "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		meta := metav1.ListMeta{ResourceVersion: "1"}
		var list any
		switch {
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			list = corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: meta, Items: []corev1.Node{*testNode()}}
		case strings.HasSuffix(r.URL.Path, "/pods"):
			list = corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: meta}
		case strings.HasSuffix(r.URL.Path, "/nodeballoons"):
			list = v1alpha1.NodeBalloonList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeBalloonList"}, ListMeta: meta}
		default:
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// TestAPanicInAnyGoroutineEndsTheRunAndNotTheProcess breaks the worker that looks at a node, and what keeps the DaemonSet.
func TestAPanicInAnyGoroutineEndsTheRunAndNotTheProcess(t *testing.T) {
	t.Parallel()
	for _, caller := range []string{"(*Controller).reconcile", "(*Controller).keepFleet"} {
		t.Run(caller, func(t *testing.T) {
			t.Parallel()
			c, err := New(Options{Host: oneNode(t), Mode: On, Clock: brokenClock{clock.RealClock{}, caller}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = leadership.RunWithoutLease(ctx, func() ([]leadership.Runnable, error) {
				return []leadership.Runnable{{Name: "nodeballoons", Run: c.Run}}, nil
			})
			if err == nil || !strings.Contains(err.Error(), "runner nodeballoons: panic: the clock broke in "+caller) {
				t.Errorf("the run ended with %v, want the panic", err)
			}
		})
	}
}
