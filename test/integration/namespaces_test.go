// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	features "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
)

// patience is how long anything may take on a busy machine.
const patience = time.Minute

// waitUntilGone returns when no namespace of that uid is left.
func waitUntilGone(t *testing.T, client kubernetes.Interface, ns *corev1.Namespace) {
	t.Helper()
	framework.Eventually(t, patience, func() error {
		current, err := client.CoreV1().Namespaces().Get(t.Context(), ns.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && current.UID != ns.UID {
			return nil
		}
		return fmt.Errorf("namespace %s is there: %w, %+v", ns.Name, err, current.Status)
	})
}

func newNamespace(t *testing.T, client kubernetes.Interface, name string) *corev1.Namespace {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func newConfigMap(t *testing.T, client kubernetes.Interface, namespace, name string, finalizers ...string) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}
	if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func releaseConfigMap(t *testing.T, client kubernetes.Interface, namespace, name string) {
	t.Helper()
	_, err := client.CoreV1().ConfigMaps(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFeaturesGoWithTheirNamespace(t *testing.T) {
	t.Parallel()
	server := framework.Start(t)
	ns := newNamespace(t, server.Kubernetes, "team")
	create := func(name string) error {
		_, err := server.Annex.FeaturesV1alpha1().Features(ns.Name).Create(t.Context(), &features.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	for _, name := range []string{"NodeSwap", "NodeSleep"} {
		if err := create(name); err != nil {
			t.Fatal(err)
		}
	}
	newConfigMap(t, server.Kubernetes, ns.Name, "held", "example.com/hold")
	if err := server.Kubernetes.CoreV1().Namespaces().Delete(t.Context(), ns.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		list, err := server.Annex.FeaturesV1alpha1().Features(ns.Name).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d Features are in a namespace that is being deleted", len(list.Items))
		}
		return err
	})
	if err := create("NodeDoze"); !apierrors.IsForbidden(err) {
		t.Errorf("a Feature, created while its namespace terminates: got %v, want 403", err)
	}
	releaseConfigMap(t, server.Kubernetes, ns.Name, "held")
	waitUntilGone(t, server.Kubernetes, ns)
}

// TestANamespaceIsDeletedAcrossSIGKILLs kills `annex up` while it empties a namespace.
func TestANamespaceIsDeletedAcrossSIGKILLs(t *testing.T) {
	t.Parallel()
	const kills, objects = 2, 300
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	binary, dir := framework.Annex(t, root), t.TempDir()
	connect := func() (*framework.Process, kubernetes.Interface) {
		process := framework.StartProcess(t, binary, dir)
		client, err := kubernetes.NewForConfig(process.Config(t))
		if err != nil {
			t.Fatal(err)
		}
		return process, client
	}
	process, client := connect()
	ns := newNamespace(t, client, "doomed")
	newConfigMap(t, client, ns.Name, "held", "example.com/hold")
	var creating sync.WaitGroup
	for worker := range 6 {
		creating.Go(func() {
			for i := range objects / 6 {
				newConfigMap(t, client, ns.Name, fmt.Sprintf("o-%d-%d", worker, i))
			}
		})
	}
	creating.Wait()
	if err := client.CoreV1().Namespaces().Delete(t.Context(), ns.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for range kills {
		timer := time.NewTimer(time.Duration(random.IntN(150)) * time.Millisecond)
		<-timer.C
		process.Kill()
		process, client = connect()
	}
	releaseConfigMap(t, client, ns.Name, "held")
	waitUntilGone(t, client, ns)
	list, err := client.CoreV1().ConfigMaps(ns.Name).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("%d objects outlived their namespace: %v", len(list.Items), err)
	}
}
