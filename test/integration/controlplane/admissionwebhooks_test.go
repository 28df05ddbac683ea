// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/admissiontest"
)

const patched = `[{"op":"add","path":"/metadata/annotations","value":{"patched":"yes"}}]`

// TestWebhooks shares one host; the webhooks of each test see its namespace only, or kinds of its own.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	createWidgetDefinition(t, h.Admin())
	admit(t, h, map[string]func(*testing.T, *admitted){
		"change objects":                             webhookMutates,
		"change custom resources":                    webhookMutatesCustomResources,
		"refuse objects":                             webhookRefuses,
		"refuse definitions and APIServices":         webhookRefusesWhatOtherServersHave,
		"fail":                                       webhookFails,
		"are selected by labels":                     webhookIsSelected,
		"are selected by conditions":                 webhookHasConditions,
		"are called again":                           webhookIsReinvoked,
		"see dry runs":                               webhookSeesDryRuns,
		"leave their own configurations alone":       webhookIsNotAskedAboutWebhooks,
		"leave reviews alone":                        webhookIsNotAskedAboutReviews,
		"are not followed to where they redirect":    webhookRedirects,
		"are not found as services that are unknown": webhookIsAnUnknownService,
	})
}

func webhookMutates(t *testing.T, a *admitted) {
	hook := admissiontest.Start(t, admissiontest.Patch(patched))
	admissiontest.Mutate(t, a.client, "mutates", a.mutating(hook.ByURL("/")))
	eventually(t, func() error {
		configMap, err := a.configMap(t, "probe", dryRun)
		if err == nil && configMap.Annotations["patched"] != "yes" {
			err = fmt.Errorf("it was not patched: %v", configMap.Annotations)
		}
		return err
	})
	if _, err := a.configMap(t, "stored", metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stored := must[*corev1.ConfigMap](t)(a.client.CoreV1().ConfigMaps(a.namespace).Get(t.Context(), "stored", metav1.GetOptions{}))
	if stored.Annotations["patched"] != "yes" {
		t.Errorf("what was stored was not patched: %v", stored.Annotations)
	}
	updated := stored.DeepCopy()
	updated.Annotations, updated.Data = nil, map[string]string{"a": "b"}
	updated = must[*corev1.ConfigMap](t)(a.client.CoreV1().ConfigMaps(a.namespace).Update(t.Context(), updated, metav1.UpdateOptions{}))
	if updated.Annotations["patched"] != "yes" || updated.Data["a"] != "b" {
		t.Errorf("the update was not patched: %v", updated)
	}
	again := must[*corev1.ConfigMap](t)(a.client.CoreV1().ConfigMaps(a.namespace).Update(t.Context(), updated, metav1.UpdateOptions{}))
	if again.ResourceVersion != updated.ResourceVersion {
		t.Errorf("an update that changes nothing was stored: %s, then %s", updated.ResourceVersion, again.ResourceVersion)
	}
	last := hook.Reviews()[len(hook.Reviews())-1]
	if last.Operation != admissionv1.Update || last.Namespace != a.namespace || last.Kind != (metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}) || last.UserInfo.Username != "admin" ||
		!strings.Contains(string(last.Object.Raw), `"kind":"ConfigMap","apiVersion":"v1"`) {
		t.Errorf("the webhook was asked %+v with the object %s", last, last.Object.Raw)
	}
}

func webhookMutatesCustomResources(t *testing.T, a *admitted) {
	mutates := admissiontest.Start(t, admissiontest.Patch(`[{"op":"replace","path":"/spec/size","value":7}]`))
	refuses := admissiontest.Start(t, func(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if request.Name == "bad" && strings.Contains(string(request.Object.Raw), `"size":7`) {
			return admissiontest.Deny("seven is too many")(request)
		}
		return admissiontest.Allow(request)
	})
	rules := []admissionregistrationv1.RuleWithOperations{admissiontest.Rule(widgets.Group, "*", "widgets")}
	admissiontest.Validate(t, a.client, "widgets", admissionregistrationv1.ValidatingWebhook{ClientConfig: refuses.ByURL("/"), Rules: rules, NamespaceSelector: admissiontest.In(a.namespace)})
	admissiontest.Mutate(t, a.client, "widgets", admissionregistrationv1.MutatingWebhook{ClientConfig: mutates.ByURL("/"), Rules: rules, NamespaceSelector: admissiontest.In(a.namespace)})
	objects := anything(t, a.Admin()).Resource(widgets).Namespace(a.namespace)
	eventually(t, func() error {
		widget, err := objects.Create(t.Context(), widget("probe"), dryRun)
		if err != nil {
			return err
		}
		if size, _, _ := unstructured.NestedInt64(widget.Object, "spec", "size"); size != 7 {
			return fmt.Errorf("the size is %d", size)
		}
		if len(refuses.Reviews()) == 0 {
			return errors.New("the validating webhook was not asked")
		}
		return nil
	})
	if _, err := objects.Create(t.Context(), widget("bad"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "seven is too many") {
		t.Errorf("what the webhook refuses: got %v, want 403", err)
	}
}

func webhookRefuses(t *testing.T, a *admitted) {
	hook := admissiontest.Start(t, func(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		response := admissiontest.Allow(request)
		if request.Name == "bad" || request.Operation == admissionv1.Delete {
			response = admissiontest.Deny("no, thanks")(request)
		}
		response.Warnings = []string{"careful"}
		return response
	})
	admissiontest.Validate(t, a.client, "refuses", a.validating(hook.ByURL("/")))
	eventually(t, func() error {
		if _, err := a.configMap(t, "bad", dryRun); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `admission webhook "refuses.example.com" denied the request: no, thanks`) {
			return fmt.Errorf("got %v, want 403", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	config, heard := a.Admin(), &heardWarnings{}
	config.WarningHandler = heard
	a.client = core(t, config)
	if _, err := a.configMap(t, "good", metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if got := heard.take(); got != "careful" {
		t.Errorf("the warning is %q", got)
	}
	if err := a.client.CoreV1().ConfigMaps(a.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting a collection: got %v, want 403", err)
	}
}

func webhookRefusesWhatOtherServersHave(t *testing.T, a *admitted) {
	hook := admissiontest.Start(t, admissiontest.Deny("not here"))
	never := []admissionregistrationv1.MatchCondition{{Name: "of-this-test", Expression: "request.name == 'v1.refused.example.com' || request.name == 'things.refused.example.com'"}}
	admissiontest.Validate(t, a.client, "others", admissionregistrationv1.ValidatingWebhook{
		ClientConfig: hook.ByURL("/"), MatchConditions: never,
		Rules: []admissionregistrationv1.RuleWithOperations{admissiontest.Rule("apiextensions.k8s.io", "v1", "*"), admissiontest.Rule("apiregistration.k8s.io", "v1", "*")},
	})
	for name, object := range map[string]struct{ path, body string }{
		"an APIService": {"/apis/apiregistration.k8s.io/v1/apiservices", `{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":"v1.refused.example.com"},
			"spec":{"group":"refused.example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":1,"service":{"namespace":"default","name":"nothing"}}}`},
		"a definition": {"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"things.refused.example.com"},
			"spec":{"group":"refused.example.com","scope":"Cluster","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`},
	} {
		eventually(t, func() error {
			err := a.client.Discovery().RESTClient().Post().AbsPath(object.path).Param("dryRun", "All").SetHeader("Content-Type", "application/json").Body([]byte(object.body)).Do(t.Context()).Error()
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "not here") {
				return fmt.Errorf("creating %s: got %v, want 403", name, err) //nolint:errorlint // it may be nil
			}
			return nil
		})
	}
}

func webhookIsSelected(t *testing.T, a *admitted) {
	hook := admissiontest.Start(t, admissiontest.Deny("selected"))
	webhook := a.validating(hook.ByURL("/"))
	webhook.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"selected": a.namespace}}
	webhook.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"object": "yes"}}
	admissiontest.Validate(t, a.client, "selects", webhook)
	label := func(value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"labels":{"selected":%q}}}`, value)
		must[*corev1.Namespace](t)(a.client.CoreV1().Namespaces().Patch(t.Context(), a.namespace, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}))
	}
	label(a.namespace)
	eventually(t, func() error {
		if _, err := a.configMap(t, "probe", dryRun, "object"); !apierrors.IsForbidden(err) {
			return fmt.Errorf("what is selected: got %v, want 403", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	if _, err := a.configMap(t, "probe", dryRun, "other"); err != nil {
		t.Errorf("an object that is not selected: %v", err)
	}
	label("no")
	eventually(t, func() error {
		_, err := a.configMap(t, "probe", dryRun, "object")
		return err
	})
}

func webhookHasConditions(t *testing.T, a *admitted) {
	hook := admissiontest.Start(t, admissiontest.Deny("meets the conditions"))
	webhook := a.validating(hook.ByURL("/"))
	webhook.MatchConditions = []admissionregistrationv1.MatchCondition{
		{Name: "by-name", Expression: "object.metadata.name.startsWith('bad')"},
		{Name: "not-for-nodes", Expression: "!('system:nodes' in request.userInfo.groups)"},
		{Name: "may-not-break", Expression: "!authorizer.group('').resource('configmaps').namespace(request.namespace).check('break').allowed() || request.name == 'bad'"},
	}
	admissiontest.Validate(t, a.client, "conditions", webhook)
	eventually(t, func() error {
		if _, err := a.configMap(t, "bad", dryRun); !apierrors.IsForbidden(err) {
			return fmt.Errorf("what meets the conditions: got %v, want 403", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	asked := len(hook.Reviews())
	for _, name := range []string{"good", "bad-but-an-administrator-may"} {
		if _, err := a.configMap(t, name, dryRun); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if now := len(hook.Reviews()); now != asked {
		t.Errorf("the webhook was asked %d times about what does not meet its conditions", now-asked)
	}
}

func webhookIsReinvoked(t *testing.T, a *admitted) {
	first := admissiontest.Start(t, admissiontest.Allow)
	second := admissiontest.Start(t, admissiontest.Patch(patched))
	again := a.mutating(first.ByURL("/"))
	again.Name, again.ReinvocationPolicy = "first.example.com", ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy)
	changes := a.mutating(second.ByURL("/"))
	changes.Name = "second.example.com"
	admissiontest.Mutate(t, a.client, "reinvoked", again, changes)
	eventually(t, func() error {
		before := len(first.Reviews())
		if _, err := a.configMap(t, "probe", dryRun); err != nil {
			return err
		}
		reviews := first.Reviews()[before:]
		if len(reviews) != 2 || !strings.Contains(string(reviews[1].Object.Raw), "patched") {
			return fmt.Errorf("the first webhook was asked %d times", len(reviews))
		}
		return nil
	})
	if first, second := len(first.Reviews()), len(second.Reviews()); first != 2*second {
		t.Errorf("the first webhook was asked %d times, the second %d", first, second)
	}
}

func webhookSeesDryRuns(t *testing.T, a *admitted) {
	hook := admissiontest.Start(t, admissiontest.Allow)
	admissiontest.Validate(t, a.client, "dry-runs", a.validating(hook.ByURL("/")))
	eventually(t, func() error {
		if _, err := a.configMap(t, "probe", dryRun); err != nil {
			return err
		}
		if len(hook.Reviews()) == 0 {
			return errors.New("the webhook was not asked")
		}
		return nil
	})
	if _, err := a.configMap(t, "real", metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, review := range hook.Reviews() {
		if want := review.Name == "probe"; review.DryRun == nil || *review.DryRun != want {
			t.Errorf("review %d of %s: dryRun is %v, want %t", i, review.Name, ptr.Deref(review.DryRun, false), want)
		}
	}
	if _, err := a.client.CoreV1().ConfigMaps(a.namespace).Get(t.Context(), "probe", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run was stored (%v)", err)
	}
}

func webhookIsNotAskedAboutWebhooks(t *testing.T, a *admitted) {
	hook := admissiontest.Start(t, admissiontest.Deny("nothing passes"))
	everything := a.validating(hook.ByURL("/"))
	everything.Rules = []admissionregistrationv1.RuleWithOperations{admissiontest.Rule("admissionregistration.k8s.io", "*", "*"), admissiontest.Rule("", "v1", "configmaps")}
	admissiontest.Validate(t, a.client, "nothing-passes", everything)
	eventually(t, func() error {
		if _, err := a.configMap(t, "probe", dryRun); !apierrors.IsForbidden(err) {
			return fmt.Errorf("got %v, want 403", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	admissiontest.Mutate(t, a.client, "passes", a.mutating(hook.ByURL("/")))
	admissiontest.Policy(t, a.client, "passes", admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: admissiontest.Constraints("nothing.example.com", "v1", "things", ""),
		Validations:      []admissionregistrationv1.Validation{{Expression: "true"}},
	}, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}})
	if err := a.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "nothing-passes", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting the webhook that refuses everything: %v", err)
	}
}

func webhookIsNotAskedAboutReviews(t *testing.T, a *admitted) {
	hook := admissiontest.Start(t, admissiontest.Deny("nobody may ask"))
	everything := a.validating(hook.ByURL("/"))
	everything.Rules = append(everything.Rules, admissiontest.Rule("authorization.k8s.io", "*", "*"), admissiontest.Rule("authentication.k8s.io", "*", "*"))
	admissiontest.Validate(t, a.client, "reviews", everything)
	eventually(t, func() error {
		if _, err := a.configMap(t, "probe", dryRun); !apierrors.IsForbidden(err) {
			return fmt.Errorf("got %v, want 403", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	if !mayI(t, a.Admin(), "get", "configmaps") {
		t.Error("an administrator may not get ConfigMaps")
	}
}
