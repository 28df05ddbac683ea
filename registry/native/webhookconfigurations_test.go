// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/registry/native/admissionregistration"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

func startAdmissionRegistration(t *testing.T) *resourcetest.Server {
	t.Helper()
	return start(t, admissionregistration.GroupVersion, admissionregistration.Kinds(nil, nil))
}

func TestWebhookConfigurations(t *testing.T) {
	t.Parallel()
	server := startAdmissionRegistration(t)
	webhooks := func(timeout int64) map[string]any {
		return map[string]any{"webhooks": []any{map[string]any{
			"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "timeoutSeconds": timeout,
			"clientConfig":    map[string]any{"service": map[string]any{"namespace": "a", "name": "b", "path": "/c"}},
			"matchConditions": []any{map[string]any{"name": "a", "expression": "object.a == request.name"}},
			"rules": []any{map[string]any{
				"operations": []any{"*"}, "apiGroups": []any{"example.com"}, "apiVersions": []any{"*"}, "resources": []any{"*/*"},
			}},
		}}}
	}
	for resource, kind := range map[string]string{
		"validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
		"mutatingwebhookconfigurations":   "MutatingWebhookConfiguration",
	} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			resourcetest.Run(t, server, resourcetest.Case{
				Resource: admissionregistration.GroupVersion.WithResource(resource), Kind: kind,
				Names: []string{"hook-a", "hook-b", "hook-c"},
				Spec:  webhooks(10), ChangedSpec: webhooks(11), Flat: true,
				InvalidSpec:    webhooks(31),
				InvalidMessage: "must be between 1 and 30 seconds",
				Columns:        []string{"Name", "Webhooks", "Age"},
			})
		})
	}
}

func harmlessWebhook() admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name: "a.example.com", SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://a")},
	}
}

func TestWebhookDefaults(t *testing.T) {
	t.Parallel()
	scheme := native.Kinds{}.NewScheme()
	config := func() admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{}}
	}
	rules := func(scope *admissionregistrationv1.ScopeType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{Scope: scope}}}
	}
	wantConfig := config()
	wantConfig.Service.Port = ptr.To[int32](443)
	wantRules := rules(ptr.To(admissionregistrationv1.AllScopes))
	for name, tc := range map[string]struct{ in, want runtime.Object }{
		"a validating webhook": {
			&admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: []admissionregistrationv1.ValidatingWebhook{{ClientConfig: config(), Rules: rules(nil)}}},
			&admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				ClientConfig: wantConfig, Rules: wantRules, FailurePolicy: ptr.To(admissionregistrationv1.Fail), MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
				NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}, TimeoutSeconds: ptr.To[int32](10),
			}}},
		},
		"a mutating webhook": {
			&admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{{ClientConfig: config(), Rules: rules(nil)}}},
			&admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{{
				ClientConfig: wantConfig, Rules: wantRules, FailurePolicy: ptr.To(admissionregistrationv1.Fail), MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
				NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}, TimeoutSeconds: ptr.To[int32](10),
				ReinvocationPolicy: ptr.To(admissionregistrationv1.NeverReinvocationPolicy),
			}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.in.DeepCopyObject()
			scheme.Default(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
			again := got.DeepCopyObject()
			scheme.Default(again)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("what is complete is changed (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestWebhooksOfLongAgoCanBeUpdated has an object in the store that could not be created any more.
func TestWebhooksOfLongAgoCanBeUpdated(t *testing.T) {
	t.Parallel()
	server := startAdmissionRegistration(t)
	client, err := admissionclient.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	configurations := client.ValidatingWebhookConfigurations()
	odd := harmlessWebhook()
	odd.SideEffects, odd.AdmissionReviewVersions = ptr.To(admissionregistrationv1.SideEffectClassUnknown), []string{"v1alpha1"}
	store(t, server, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "old", UID: "1"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{odd, odd},
	})
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		_, last = configurations.Get(ctx, "old", metav1.GetOptions{})
		return last == nil, nil
	}); err != nil {
		t.Fatalf("waiting for what was put into the store: %v", last)
	}
	if _, err := configurations.Patch(t.Context(), "old", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a label: %v", err)
	}
	good := harmlessWebhook()
	changed, err := configurations.Get(t.Context(), "old", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changed.Webhooks = []admissionregistrationv1.ValidatingWebhook{good}
	if changed, err = configurations.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("made good: %v", err)
	}
	if changed.Generation != 1 {
		t.Errorf("generation %d, want 1: it counts from none", changed.Generation)
	}
	changed.Webhooks = []admissionregistrationv1.ValidatingWebhook{odd}
	if _, err := configurations.Update(t.Context(), changed, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("made odd again: %v, want it to be invalid", err)
	}
}

// store puts an object into etcd, past the server.
func store(t *testing.T, server *resourcetest.Server, configuration *admissionregistrationv1.ValidatingWebhookConfiguration) {
	t.Helper()
	encoded, err := runtime.Encode(serializer.NewCodecFactory(native.Kinds{}.NewScheme()).LegacyCodec(admissionregistration.GroupVersion), configuration)
	if err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("%s/%s/validatingwebhookconfigurations/%s", server.Prefix, admissionregistration.GroupVersion.Group, configuration.Name)
	if _, err := server.Etcd.Put(t.Context(), key, string(encoded)); err != nil {
		t.Fatal(err)
	}
}
