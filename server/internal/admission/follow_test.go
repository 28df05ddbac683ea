// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubeadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
)

// made is a plugin that asks for schemas as soon as it has a client, and is ready after a time.
type made struct {
	*kubeadmission.Handler
	ready time.Time
	ended <-chan struct{}
}

func (m *made) SetExternalKubeClientSet(client kubernetes.Interface) {
	_, _ = client.Discovery().OpenAPIV3().Paths()
}

func (m *made) ValidateInitialization() error { return nil }

func (m *made) SetDrainedNotification(ended <-chan struct{}) { m.ended = ended }

func (m *made) WaitForReady() bool {
	time.Sleep(time.Second) //nolint:forbidigo // in a bubble, it takes no time
	return !time.Now().Before(m.ready)
}

func (m *made) Validate(context.Context, kubeadmission.Attributes, kubeadmission.ObjectInterfaces) error {
	return errRefused
}

// acting has a chain let a plugin act that is made by the function, until the test ends.
func acting(t *testing.T, name string, schemas *schemasOf, create func() (kubeadmission.Interface, error)) *lazyPlugin {
	t.Helper()
	client := fake.NewClientset()
	c := &Chain{server: Server{Client: client, Schemas: schemas}, mapper: newLearningMapper(client.Discovery())}
	plugin := newLazyPlugin(definition{name: name, make: func(io.Reader) (kubeadmission.Interface, error) { return create() }, exempt: exemptFromPolicies})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.runPlugin(ctx, plugin, nil)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return plugin
}

func TestWhichPluginsAreMadeAgainForOtherSchemas(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{MutatingAdmissionPolicy: 2, ValidatingAdmissionPolicy: 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				schemas := &schemasOf{}
				schemas.set("a")
				var all []*made
				plugin := acting(t, name, schemas, func() (kubeadmission.Interface, error) {
					all = append(all, &made{})
					return all[len(all)-1], nil
				})
				time.Sleep(10 * time.Second) //nolint:forbidigo // in a bubble, it takes no time
				synctest.Wait()
				if len(all) != 1 || plugin.pending() != nil {
					t.Fatalf("made %d times, %v", len(all), plugin.pending())
				}
				schemas.set("a", "b")
				time.Sleep(10 * time.Second) //nolint:forbidigo // in a bubble, it takes no time
				synctest.Wait()
				if len(all) != want || *plugin.plugin.Load() != kubeadmission.Interface(all[len(all)-1]) {
					t.Errorf("made %d times, want %d", len(all), want)
				}
				for i, one := range all {
					select {
					case <-one.ended:
						if i == len(all)-1 {
							t.Error("the plugin that acts has ended")
						}
					default:
						if i < len(all)-1 {
							t.Errorf("plugin %d goes on", i)
						}
					}
				}
			})
		})
	}
}

func TestAPluginActsWhenItIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := acting(t, ValidatingAdmissionPolicy, &schemasOf{}, func() (kubeadmission.Interface, error) {
			return &made{ready: time.Now().Add(5 * time.Second)}, nil
		})
		time.Sleep(4500 * time.Millisecond) //nolint:forbidigo // in a bubble, it takes no time
		if plugin.pending() == nil {
			t.Error("it acts before it is ready")
		}
		time.Sleep(time.Second) //nolint:forbidigo // in a bubble, it takes no time
		if err := plugin.pending(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPluginThatCannotBeMadeRefusesAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := acting(t, ValidatingAdmissionPolicy, &schemasOf{}, func() (kubeadmission.Interface, error) { return nil, errors.New("not made") })
		synctest.Wait()
		resource := corev1.SchemeGroupVersion.WithResource("secrets")
		request := kubeadmission.NewAttributesRecord(&corev1.Secret{}, nil, resource.GroupVersion().WithKind("Secret"), "ns", "x", resource, "", kubeadmission.Create, nil, false, nil)
		if err := (validating{plugin}).Validate(t.Context(), request, nil); !apierrors.IsInternalError(err) {
			t.Errorf("got %v, want an internal error", err)
		}
	})
}
