// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"net/http"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/controllers/leadership/conditions"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework"
)

// conditionPatience is how long a condition may take to see a change on a busy machine.
const conditionPatience = 30 * time.Second

// following is a condition that a test follows.
type following struct {
	reports chan bool
	cancel  context.CancelFunc
	ended   chan error
}

func follow(t *testing.T, condition leadership.Condition) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{reports: make(chan bool), cancel: cancel, ended: make(chan error, 1)}
	go func() {
		f.ended <- condition(ctx, func(on bool) {
			select {
			case f.reports <- on:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { f.end(t) })
	return f
}

func (f *following) end(t *testing.T) {
	t.Helper()
	f.cancel()
	select {
	case err := <-f.ended:
		if err != nil {
			t.Errorf("the condition ended with %v", err)
		}
		f.ended <- nil
	case <-time.After(conditionPatience):
		t.Fatal("the condition did not end")
	}
}

// expect returns when the condition reports a change, which must be to the value.
func (f *following) expect(t *testing.T, want bool, after string) {
	t.Helper()
	select {
	case got := <-f.reports:
		if got != want {
			t.Fatalf("after %s the condition reports %t, want %t", after, got, want)
		}
	case <-time.After(conditionPatience):
		t.Fatalf("after %s the condition does not report %t", after, want)
	}
}

func TestFeatureOnFollowsTheFeature(t *testing.T) {
	t.Parallel()
	server := framework.SharedServer()
	features := server.Annex.FeaturesV1alpha1().Features("default")
	set := func(name string, state featuresv1alpha1.State) {
		t.Helper()
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			feature, err := features.Get(t.Context(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				feature, err = features.Create(t.Context(), &featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			}
			if err != nil {
				return err
			}
			feature.Status.State = state
			_, err = features.UpdateStatus(t.Context(), feature, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := features.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	condition := follow(t, conditions.FeatureOn(server.Annex, "default", "Wanted"))
	set("Other", featuresv1alpha1.StateOn)
	set("Wanted", featuresv1alpha1.StateOff)
	condition.expect(t, false, "it was created and is Off")
	set("Wanted", featuresv1alpha1.StateTurningOn)
	set("Wanted", featuresv1alpha1.StateOn)
	condition.expect(t, true, "it is On")
	set("Wanted", featuresv1alpha1.StateTurningOff)
	condition.expect(t, false, "it is TurningOff")
	set("Wanted", featuresv1alpha1.StateOn)
	condition.expect(t, true, "it is On again")
	remove("Other")
	remove("Wanted")
	condition.expect(t, false, "it was deleted")
}

func TestAPIServedFollowsDiscovery(t *testing.T) {
	t.Parallel()
	server := framework.SharedServer()
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	condition := follow(t, conditions.APIs{Config: server.Config, Poll: 50 * time.Millisecond}.Served(widgets))
	condition.expect(t, false, "the start")

	built := follow(t, conditions.APIServed(server.Config, schema.GroupVersionResource{Group: "node.k8s.io", Version: "v1alpha1", Resource: "nodeballoons"}))
	built.expect(t, true, "the start")

	definitions := server.APIExtensions.ApiextensionsV1().CustomResourceDefinitions()
	for _, plural := range []string{"gadgets", "widgets"} {
		if _, err := definitions.Create(t.Context(), customResource(plural), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	condition.expect(t, true, "the definition was created")
	if err := definitions.Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	condition.expect(t, false, "the definition was deleted")
}

// TestAGroupFollowsAFeature ties a group to a Feature and turns it on and off.
func TestAGroupFollowsAFeature(t *testing.T) {
	t.Parallel()
	server := framework.SharedServer()
	events := make(chan string)
	options := leadership.NewOptions()
	options.Client = server.Config
	candidate, err := leadership.New(options, leadership.Group{
		Name: "tied", Lease: types.NamespacedName{Namespace: "default", Name: "tied"},
		When: conditions.FeatureOn(server.Annex, "default", "Tied"),
		New: func(*leadership.Term) ([]leadership.Runnable, error) {
			return []leadership.Runnable{{Name: "tied", Run: func(ctx context.Context) error {
				events <- "started"
				<-ctx.Done()
				events <- "stopped"
				return nil
			}}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- candidate.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	features := server.Annex.FeaturesV1alpha1().Features("default")
	feature, err := features.Create(t.Context(), &featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "Tied"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, step := range []struct {
			state featuresv1alpha1.State
			want  string
		}{{featuresv1alpha1.StateOn, "started"}, {featuresv1alpha1.StateOff, "stopped"}} {
			feature.Status.State = step.state
			if feature, err = features.UpdateStatus(t.Context(), feature, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-events:
				if got != step.want {
					t.Fatalf("with the Feature %s the runner has %s", step.state, got)
				}
			case <-time.After(conditionPatience):
				t.Fatalf("with the Feature %s the runner has not %s", step.state, step.want)
			}
		}
	}
}

// TestConditionsEndWhileTheServerIsAway: client-go's streaming list would sleep for up to a minute.
func TestConditionsEndWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	attempts := make(chan struct{}, 100)
	config := &rest.Config{Host: "https://127.0.0.1:1", WrapTransport: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			select {
			case attempts <- struct{}{}:
			default:
			}
			return response, err
		})
	}}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, condition := range map[string]leadership.Condition{
		"FeatureOn": conditions.FeatureOn(client, "default", "Away"),
		"APIServed": conditions.APIs{Config: config, Poll: 10 * time.Millisecond}.Served(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}),
	} {
		condition := follow(t, condition)
		for range 3 {
			select {
			case <-attempts:
			case on := <-condition.reports:
				t.Errorf("%s reports %t without having seen the server", name, on)
			case <-time.After(conditionPatience):
				t.Fatalf("%s does not ask the server", name)
			}
		}
		condition.end(t)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func customResource(plural string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
}
