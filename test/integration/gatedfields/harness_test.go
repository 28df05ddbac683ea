// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gatedfields_test

import (
	"cmp"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

func TestMain(m *testing.M) { resourcetest.Main(m) }

const (
	color, material, bolts = "WidgetColor", "WidgetMaterial", "WidgetBolts"

	on, off        = featuresv1alpha1.StateOn, featuresv1alpha1.StateOff
	turningOn      = featuresv1alpha1.StateTurningOn
	turningOff     = featuresv1alpha1.StateTurningOff
	firstWriter    = "first-writer"
	secondWriter   = "second-writer"
	namespace      = "default"
	waitForAnswers = 20 * time.Second
)

// client is a client of widgets, or of gadgets, that keeps the warnings it gets.
type client struct {
	dynamic.ResourceInterface
	*warnings
}

type warnings struct {
	mu  sync.Mutex
	all []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// taken returns the warnings since the last time.
func (w *warnings) taken() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.all, "\n")
	w.all = nil
	return all
}

func widgetsOf(t testing.TB, s *server.Server) client {
	t.Helper()
	w := &warnings{}
	config := rest.CopyConfig(s.Config)
	config.WarningHandler = w
	out, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client{ResourceInterface: out.Resource(server.WidgetResource).Namespace(namespace), warnings: w}
}

// setState brings a Feature, which is made if there is none, into a state. Tasks are "name" or "name state".
func setState(t testing.TB, s *server.Server, gate string, state featuresv1alpha1.State, tasks ...string) {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.WarningHandler = rest.NoWarnings{}
	clients, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	features := clients.FeaturesV1alpha1().Features(server.Namespace)
	feature, err := features.Create(t.Context(), &featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: gate}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		feature, err = features.Get(t.Context(), gate, metav1.GetOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	feature.Status.State, feature.Status.Tasks = state, nil
	for _, task := range tasks {
		name, taskState, _ := strings.Cut(task, " ")
		feature.Status.Tasks = append(feature.Status.Tasks, featuresv1alpha1.Task{
			Name: name, State: cmp.Or(featuresv1alpha1.TaskState(taskState), featuresv1alpha1.TaskPending),
		})
	}
	if _, err = features.UpdateStatus(t.Context(), feature, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func setStates(t testing.TB, s *server.Server, state featuresv1alpha1.State) {
	t.Helper()
	for _, gate := range []string{color, material, bolts} {
		setState(t, s, gate, state)
	}
}

// widget returns a widget with a spec.
func widget(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": server.WidgetResource.GroupVersion().String(), "kind": "Widget",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec":     (&unstructured.Unstructured{Object: spec}).DeepCopy().Object,
	}}
}

func encode(t testing.TB, value any) []byte {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// raw returns what etcd has of a widget, and its mod revision.
func raw(t testing.TB, s *server.Server, name string) ([]byte, int64) {
	t.Helper()
	out, err := s.Etcd.Get(t.Context(), s.Key(server.WidgetResource.GroupResource(), namespace, name), clientv3.WithLimit(1))
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Kvs) == 0 {
		return nil, 0
	}
	return out.Kvs[0].Value, out.Kvs[0].ModRevision
}

// managed returns the managed fields of all managers as one text.
func managed(obj *unstructured.Unstructured) string {
	var out []string
	for _, entry := range obj.GetManagedFields() {
		out = append(out, entry.Manager+"/"+entry.Subresource+": "+entry.FieldsV1.GetRawString())
	}
	return strings.Join(out, "\n")
}

func patchOptions(manager string, dry bool) metav1.PatchOptions {
	return metav1.PatchOptions{FieldManager: manager, DryRun: dryRun(dry), FieldValidation: metav1.FieldValidationStrict}
}

func dryRun(dry bool) []string {
	if dry {
		return []string{metav1.DryRunAll}
	}
	return nil
}
