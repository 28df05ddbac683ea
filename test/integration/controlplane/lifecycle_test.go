// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/server/controlplane"
)

// TestStopLeavesNothingBehind is not parallel: it counts the goroutines of the process.
func TestStopLeavesNothingBehind(t *testing.T) {
	// What the process keeps for good, such as the metrics of the libraries, comes with the first server.
	warm := startHost(t, nil)
	warm.Stop()
	before := settled()
	for range 2 {
		h := startHost(t, nil)
		watch, err := core(t, h.Admin()).CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		h.Stop()
		t.Logf("stopped within %s with a watch open", time.Since(began))
		watch.Stop()
	}
	eventually(t, func() error {
		if now := runtime.NumGoroutine(); now > before {
			stacks := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines, %d before:\n%s", now, before, stacks[:runtime.Stack(stacks, true)])
		}
		return nil
	})
}

// TestStopWhileStarting stops at moments at which upstream's hooks would end the process.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	for delay := time.Duration(0); delay < 200*time.Millisecond; delay += 40 * time.Millisecond {
		h.Launch()
		<-time.After(delay)
		h.Stop()
	}
	h.Start()
}

// settled waits until the number of goroutines no longer falls.
func settled() int {
	last, same := runtime.NumGoroutine(), 0
	for same < 20 {
		<-time.After(50 * time.Millisecond)
		if now := runtime.NumGoroutine(); now < last {
			last, same = now, 0
		} else {
			same++
		}
	}
	return last
}

func TestTwoInOneProcess(t *testing.T) {
	t.Parallel()
	one, other := startHost(t, nil), startHost(t, nil)
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "only-here"}}
	if _, err := core(t, one.Admin()).CoreV1().ConfigMaps("default").Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := core(t, other.Admin()).CoreV1().ConfigMaps("default").Get(t.Context(), "only-here", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v from the other control plane, want 404", err)
	}
	one.Stop()
	if _, err := core(t, other.Admin()).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the other control plane after one has stopped: %v", err)
	}
}

func TestFlowControlObjects(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	client := core(t, h.Admin()).FlowcontrolV1()
	eventually(t, func() error {
		schemas, err := client.FlowSchemas().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(schemas.Items) != 11 {
			return fmt.Errorf("there are %d flow schemas", len(schemas.Items))
		}
		for _, schema := range schemas.Items {
			if len(schema.Status.Conditions) != 1 || schema.Status.Conditions[0].Status != flowcontrolv1.ConditionFalse {
				return fmt.Errorf("%s has status %v", schema.Name, schema.Status)
			}
		}
		return nil
	})
	mandatory, err := client.FlowSchemas().Get(t.Context(), "catch-all", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mandatory.Spec.MatchingPrecedence = 5
	if _, err := client.FlowSchemas().Update(t.Context(), mandatory, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("changing a mandatory object: got %v, want 422", err)
	}
}

func TestOpenAPIDescribesWhatIsServed(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	document, err := core(t, h.Admin()).Discovery().OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, definition := range document.GetDefinitions().GetAdditionalProperties() {
		got[definition.GetName()] = true
	}
	for name, want := range map[string]bool{
		"io.k8s.api.core.v1.ConfigMap":       true,
		"io.k8s.api.coordination.v1.Lease":   true,
		"io.k8s.api.core.v1.Pod":             false,
		"io.k8s.api.rbac.v1.Role":            true,
		"io.k8s.api.flowcontrol.v1.Subject":  true,
		"io.k8s.api.core.v1.NamespaceStatus": true,
	} {
		if got[name] != want {
			t.Errorf("%s is published: %t, want %t", name, got[name], want)
		}
	}
	eventually(t, func() error {
		paths, err := core(t, h.Admin()).Discovery().OpenAPIV3().Paths()
		if err != nil {
			return err
		}
		for _, path := range []string{"api/v1", "apis/coordination.k8s.io/v1", "apis/apiextensions.k8s.io/v1", "apis/apiregistration.k8s.io/v1"} {
			if paths[path] == nil {
				return fmt.Errorf("OpenAPI v3 has no %s", path)
			}
		}
		return nil
	})
	v1, err := core(t, h.Admin()).Discovery().RESTClient().Get().AbsPath("/openapi/v3/api/v1").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(v1), "__internal") {
		t.Error("OpenAPI speaks of __internal, which is nobody's version")
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	t.Parallel()
	missing := t.TempDir() + "/missing"
	for name, tc := range map[string]struct {
		adjust func(*controlplane.Options)
		want   []string
	}{
		"nobody can sign in": {func(*controlplane.Options) {}, []string{"nobody could sign in; set --client-ca-file"}},
		"no such files": {func(o *controlplane.Options) {
			o.ClientCAFile, o.RequestHeader.ClientCAFile, o.RequestHeader.AllowedNames = missing, missing, []string{"a"}
		}, []string{"--client-ca-file cannot be read", "--requestheader-client-ca-file cannot be read"}},
		"half a pair": {func(o *controlplane.Options) { o.ProxyClientCertFile = missing }, []string{"--proxy-client-cert-file is set but --proxy-client-key-file is not"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := controlplane.NewOptions()
			tc.adjust(o)
			_, err := o.Complete()
			if err == nil {
				err = errors.New("no error")
			}
			var got []string
			for _, want := range tc.want {
				if strings.Contains(err.Error(), want) {
					got = append(got, want)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("in %q (-want,+got):\n%s", err, diff)
			}
		})
	}
}
