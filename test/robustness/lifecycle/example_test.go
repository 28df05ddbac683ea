// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycletest"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	frobNamespace = "frob-system"
	frobbing      = "Frobbing"
)

var frobs = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "frobs"}

// TestExample has the feature of the example server, which is killed; Annex goes on running.
func TestExample(t *testing.T) {
	t.Parallel()
	inLanes(t, func(t *testing.T, rounds int, seed uint64) {
		cases := []lifecycletest.Case{{Feature: frobbing, Use: useFrob, StopUsing: removeFrob, CheckOff: checkNoFrobs}}
		lifecycletest.Run(t, newExample(t), cases, lifecycletest.Options{Namespace: frobNamespace, Rounds: rounds, Seed: seed, Exclude: annexExclusions()})
	})
}

// example is the example server, and the cluster that it runs against.
type example struct {
	binary, log string
	cluster     *framework.Server
	command     *exec.Cmd
	// ended is closed when the process has, and exit is valid then.
	ended chan struct{}
	exit  error
}

func newExample(t testing.TB) *example {
	t.Helper()
	dir := dataDir(t)
	e := &example{binary: framework.Example(t, root, "feature-server"), log: filepath.Join(t.TempDir(), "log")}
	e.cluster = framework.Start(t, func(o *standalone.Options) {
		o.DataDir = dir
		o.Extension.Lifecycle.AnswerWindow = time.Second
	})
	// The cluster's own Features are announced first, so that nothing changes later but what is tested.
	poll.Eventually(t, time.Minute, "Annex's own Features have settled", func(ctx context.Context) error {
		list, err := e.cluster.Annex.FeaturesV1alpha1().Features(gates.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if have, want := len(list.Items), len(gates.Own(gates.New())); have != want {
			return fmt.Errorf("%d of %d are announced", have, want)
		}
		for i := range list.Items {
			if f := &list.Items[i]; !settled(f, featuresv1alpha1.StateOn) && !settled(f, featuresv1alpha1.StateOff) {
				return fmt.Errorf("%s is %s", f.Name, f.Status.State)
			}
		}
		return nil
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: frobNamespace}}
	if _, err := e.cluster.Kubernetes.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if e.command != nil {
			e.Kill(t)
		}
		if t.Failed() {
			said, _ := os.ReadFile(e.log)
			t.Logf("the example server said:\n%s", end(string(said)))
		}
	})
	return e
}

// holder is the process that the other replicas would know.
func (e *example) holder(ctx context.Context) (string, error) {
	lease, err := e.cluster.Kubernetes.CoordinationV1().Leases(frobNamespace).Get(ctx, "feature-server-one-lifecycle", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), err
}

// Start implements lifecycletest.Server. The server serves when it has its Lease.
func (e *example) Start(t testing.TB, values map[string]bool) {
	t.Helper()
	former, err := e.holder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e.command != nil {
		if err := e.command.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if <-e.ended; e.exit != nil {
			t.Fatalf("the example server did not end in order: %v", e.exit)
		}
	}
	e.command = exec.Command(e.binary, "--kubeconfig="+e.cluster.Kubeconfig, "--instance=one", "--feature-gates="+flagOf(values), "--dynamic-features="+frobbing,
		"--answer-window=500ms", "--renew-interval=1s", "--grace=300ms")
	log, err := os.OpenFile(e.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	e.command.Stdout, e.command.Stderr = log, log
	if err := e.command.Start(); err != nil {
		t.Fatal(err)
	}
	e.ended = make(chan struct{})
	go func() {
		defer close(e.ended)
		e.exit = e.command.Wait()
	}()
	poll.Eventually(t, time.Minute, "the example server has its Lease", func(ctx context.Context) error {
		now, err := e.holder(ctx)
		if err == nil && (now == "" || now == former) {
			err = errNotYet
		}
		return err
	})
}

// Kill implements lifecycletest.Server.
func (e *example) Kill(t testing.TB) {
	t.Helper()
	if err := e.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill the example server: %v", err)
	}
	if <-e.ended; e.exit == nil {
		t.Error("the example server had ended by itself before it was killed")
	}
	e.command = nil
}

// Config implements lifecycletest.Server.
func (e *example) Config() *rest.Config { return e.cluster.Config }

// Stored implements lifecycletest.Server.
func (e *example) Stored(ctx context.Context) (map[string][]byte, error) {
	return storeIn(ctx, e.cluster.DataDir())
}

func frobClient(t testing.TB, config *rest.Config) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(frobs)
}

func frob(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": frobs.GroupVersion().String(), "kind": "Frob", "metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size},
	}}
}

// useFrob stores a Frob and waits until the server has frobbed it.
func useFrob(t testing.TB, config *rest.Config) {
	client := frobClient(t, config)
	if _, err := client.Create(t.Context(), frob("one", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, time.Minute, "the Frob is frobbed", func(ctx context.Context) error {
		out, err := client.Get(ctx, "one", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if frobbed, _, _ := unstructured.NestedInt64(out.Object, "status", "frobbed"); frobbed != 3 {
			return fmt.Errorf("its status is %v", out.Object["status"])
		}
		return nil
	})
}

// removeFrob removes it, as its user. It may have been asked before the CRD was closed.
func removeFrob(t testing.TB, config *rest.Config) {
	if err := frobClient(t, config).Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a Frob cannot be deleted while the feature is TurningOff: %v", err)
	}
}

func checkNoFrobs(t testing.TB, config *rest.Config) {
	if _, err := frobClient(t, config).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("listing Frobs while the feature is off gives %v, want a 404", err)
	}
}

var errNotYet = errors.New("not yet")

// end is the end of a log.
func end(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
