// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/featuregate/lifecycletest"
)

// recorder is a test that is expected to fail.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper()      {}
func (r *recorder) Failed() bool { return r.failure != "" }

func (r *recorder) Errorf(format string, args ...any) {
	r.failure += fmt.Sprintf(format, args...) + "\n"
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// untidy is a server whose storage has more than its API shows.
type untidy struct {
	*example
	used atomic.Bool
}

func (u *untidy) Stored(ctx context.Context) (map[string][]byte, error) {
	out, err := u.example.Stored(ctx)
	if err == nil && u.used.Load() {
		out["/registry/hidden"] = []byte(`{"spec":{"color":"red"}}`)
	}
	return out, err
}

// TestWhatIsLeftBehindIsNoticed has a feature whose use leaves something behind in the API, and something that only the storage shows.
func TestWhatIsLeftBehindIsNoticed(t *testing.T) {
	t.Parallel()
	server := &untidy{example: newExample(t)}
	use := func(t testing.TB, config *rest.Config) {
		useFrob(t, config)
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		left := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "left-behind"}}
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), left, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		server.used.Store(true)
	}
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lifecycletest.Run(r, server, []lifecycletest.Case{
			{Feature: frobbing, Use: use, StopUsing: removeFrob, CheckOff: checkNoFrobs},
		}, lifecycletest.Options{Namespace: frobNamespace, Exclude: annexExclusions(), Following: 3 * time.Second})
	}()
	<-done
	for _, want := range []string{"against before they ever were on", "+ v1/configmaps/default/left-behind", "+ /registry/hidden"} {
		if !strings.Contains(r.failure, want) {
			t.Errorf("what was noticed lacks %q:\n%s", want, r.failure)
		}
	}
	for _, unwanted := range []string{"coordination", "openapi"} {
		if strings.Contains(r.failure, unwanted) {
			t.Errorf("more was noticed than was left behind:\n%s", r.failure)
		}
	}
}
