// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeadmission "k8s.io/apiserver/pkg/admission"

	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/server/controlplane"
)

// TestPoliciesAreEnforcedFromTheStartOn restarts a host with a policy and a webhook, and writes at once.
func TestPoliciesAreEnforcedFromTheStartOn(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	a := &admitted{h, core(t, h.Admin()), "default"}
	hook := admissiontest.Start(t, admissiontest.Patch(patched))
	admissiontest.Mutate(t, a.client, "patches", a.mutating(hook.ByURL("/")))
	spec := a.policy("!object.metadata.name.startsWith('bad')")
	admissiontest.Policy(t, a.client, "refuses", spec, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: denies})
	admissiontest.MutatingPolicy(t, a.client, "applies", a.mutation(apply("Object{data: {'applied': 'yes'}}")), admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{})
	createWidgetDefinition(t, h.Admin())
	sizes := a.mutation(apply("Object{spec: Object.spec{size: 7}}"))
	sizes.MatchConstraints = admissiontest.Constraints(widgets.Group, "*", "widgets", a.namespace)
	admissiontest.MutatingPolicy(t, a.client, "sizes", sizes, admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{})
	a.refused(t, "bad", "failed expression")
	h.Stop()
	server := h.Launch()
	a.client = core(t, h.Admin())
	for round := range 3 { // the first request comes before the server is ready
		if configMap, err := a.configMap(t, "good", dryRun); err != nil || configMap.Annotations["patched"] != "yes" || configMap.Data["applied"] != "yes" {
			t.Errorf("round %d: got %v (%v), want it patched and applied", round, configMap, err)
		}
		if _, err := a.configMap(t, "bad", dryRun); !apierrors.IsInvalid(err) {
			t.Errorf("round %d: got %v, want 422", round, err)
		}
	}
	select {
	case <-server.Ready():
	case <-time.After(patience):
		t.Fatal("the control plane did not become ready")
	}
	// The schemas of custom resources are published after that, and till then they are refused.
	eventually(t, func() error {
		sized, err := anything(t, h.Admin()).Resource(widgets).Namespace(a.namespace).Create(t.Context(), widget("w"), dryRun)
		if apierrors.IsServiceUnavailable(err) {
			return err
		}
		if err != nil {
			t.Fatal(err)
		}
		if size, _, _ := unstructured.NestedInt64(sized.Object, "spec", "size"); size != 7 {
			t.Errorf("the size is %d, want 7", size)
		}
		return nil
	})
}

// TestServiceWebhooks has one behind a service that is resolved in code, with credentials from a file, and one that is the host itself.
func TestServiceWebhooks(t *testing.T) {
	t.Parallel()
	hook := admissiontest.Start(t, admissiontest.Patch(patched))
	dir := t.TempDir()
	for file, content := range map[string]string{
		"kubeconfig": `{"apiVersion":"v1","kind":"Config","users":[{"name":"webhook.default.svc","user":{"token":"of-the-service"}},{"name":"127.0.0.1:*","user":{"token":"of-the-url"}},{"name":"*","user":{"token":"of-others"}}]}`,
		"admission.yaml": `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugins":[{"name":"MutatingAdmissionWebhook","configuration":
			{"apiVersion":"apiserver.config.k8s.io/v1","kind":"WebhookAdmissionConfiguration","kubeConfigFile":"` + filepath.Join(dir, "kubeconfig") + `"}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := startHost(t, func(o *controlplane.Options) {
		o.ServiceResolver = hook
		o.Admission.ConfigFile = filepath.Join(dir, "admission.yaml")
	})
	a := &admitted{h, core(t, h.Admin()), "default"}
	webhook := a.mutating(hook.ByService("/path"))
	admissiontest.Mutate(t, a.client, "service", webhook)
	eventually(t, func() error {
		configMap, err := a.configMap(t, "probe", dryRun)
		if err == nil && configMap.Annotations["patched"] != "yes" {
			err = errors.New("it is not patched")
		}
		return err
	})
	if got := hook.Headers()[0].Get("Authorization"); got != "Bearer of-the-service" {
		t.Errorf("the webhook was called with %q", got)
	}
	// The host's own credentials are for the host alone: the service default/kubernetes is resolved to it, and not in code.
	itself := a.mutating(hook.ByService("/readyz"))
	itself.ClientConfig.Service.Name = "kubernetes"
	itself.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"itself": "yes"}}
	admissiontest.Mutate(t, a.client, "itself", itself)
	asked := len(hook.Reviews())
	eventually(t, func() error {
		if _, err := a.configMap(t, "probe", dryRun, "itself"); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `failed calling webhook "itself.example.com"`) {
			return fmt.Errorf("got %v, want 500", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	for _, header := range hook.Headers()[asked:] {
		if got := header.Get("Authorization"); got != "Bearer of-the-service" {
			t.Errorf("the resolver's server was called with %q", got)
		}
	}
}

// TestAdmissionIsSwitchedInCode leaves plugins out, by name and by the kinds that they need, and adds one.
func TestAdmissionIsSwitchedInCode(t *testing.T) {
	t.Parallel()
	h := startHost(t, func(o *controlplane.Options) {
		o.DisabledResources = []schema.GroupResource{
			{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}, {Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
		}
		o.Admission.DisabledPlugins = []string{"ValidatingAdmissionPolicy"}
		o.Admission.Plugins = []controlplane.AdmissionPlugin{{Name: "Own", New: func(io.Reader) (kubeadmission.Interface, error) {
			return own{kubeadmission.NewHandler(kubeadmission.Create)}, nil
		}}}
	})
	a := &admitted{h, core(t, h.Admin()), "default"}
	admissiontest.Policy(t, a.client, "refuses", a.policy("false"), admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: denies})
	hook := admissiontest.Start(t, admissiontest.Patch(patched))
	admissiontest.Mutate(t, a.client, "patches", a.mutating(hook.ByURL("/")))
	eventually(t, func() error {
		configMap, err := a.configMap(t, "good", dryRun)
		if err == nil && configMap.Annotations["patched"] != "yes" {
			err = errors.New("it is not patched")
		}
		return err
	})
	if _, err := a.configMap(t, "own", dryRun); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "my own rule") {
		t.Errorf("what the plugin refuses: got %v, want 403", err)
	}
	metrics := must[[]byte](t)(a.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context()))
	for name, want := range map[string]bool{"Own": true, "MutatingAdmissionWebhook": true, "NamespaceLifecycle": true} {
		if got := strings.Contains(string(metrics), `name="`+name+`"`); got != want {
			t.Errorf("%s is among the metrics: %t, want %t", name, got, want)
		}
	}
}

// own refuses objects of its name.
type own struct{ *kubeadmission.Handler }

func (own) Validate(_ context.Context, request kubeadmission.Attributes, _ kubeadmission.ObjectInterfaces) error {
	if request.GetName() == "own" {
		return kubeadmission.NewForbidden(request, errors.New("my own rule"))
	}
	return nil
}

func TestAdmissionIsValidated(t *testing.T) {
	t.Parallel()
	o := newHost(t, nil).RawOptions()
	o.Admission.DisabledPlugins = []string{"Nonsense"}
	o.Admission.ConfigFile = "/nowhere"
	if _, err := o.Complete(); err == nil || !strings.Contains(err.Error(), "Nonsense") || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("got %v, want both mistakes", err)
	}
}
