// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
)

const (
	// root is the repository as seen from here.
	root = "../../.."
	// patience is how long anything may take on a machine that has much else to do.
	patience = 60 * time.Second
	// group is that of all kinds here; each test has kinds of its own.
	group = "test.example.com"
)

// world is the control plane that all tests share.
type world struct {
	*framework.Server
	kubectl *framework.Kubectl
	// webhook is found as the service of conversion webhooks.
	webhook *conversions
}

func TestCustomResources(t *testing.T) {
	t.Parallel()
	w := &world{webhook: startConversions(t)}
	w.Server = framework.Start(t, func(o *standalone.Options) { o.ControlPlane.ServiceResolver = w.webhook })
	w.kubectl = framework.NewKubectl(t, root, w.Kubeconfig)
	// They wait more than they work, so more of them run at once than there are processors: creations wait for two seconds after a
	// definition, for example, until every replica may be thought to know of it.
	var running sync.WaitGroup
	defer running.Wait()
	for name, test := range map[string]func(*testing.T, *world){
		"validation":          testValidation,
		"rules":               testRules,
		"ratcheting":          testRatcheting,
		"defaulting":          testDefaulting,
		"field validation":    testFieldValidation,
		"conversion":          testConversion,
		"field selectors":     testFieldSelectors,
		"server-side apply":   testApply,
		"subresources":        testSubresources,
		"discovery":           testDiscovery,
		"OpenAPI":             testOpenAPI,
		"tables":              testTables,
		"names":               testNames,
		"deletion":            testDeletion,
		"broken definitions":  testBrokenDefinitions,
		"versions and owners": testApplyAcrossVersions,
	} {
		running.Go(func() { t.Run(name, func(t *testing.T) { test(t, w) }) })
	}
}

// parse reads a definition. The plural is that of the kind in lower case with an s, unless it says otherwise.
func parse(t *testing.T, kind, spec string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte("spec:\n"+indent(2, spec)), definition); err != nil {
		t.Fatal(err)
	}
	names := &definition.Spec.Names
	names.Kind, definition.Spec.Group = kind, group
	if names.Plural == "" {
		names.Plural = strings.ToLower(kind) + "s"
	}
	if definition.Spec.Scope == "" {
		definition.Spec.Scope = apiextensionsv1.NamespaceScoped
	}
	definition.Name = names.Plural + "." + group
	return definition
}

func indent(by int, text string) string {
	spaces := strings.Repeat(" ", by)
	return spaces + strings.ReplaceAll(strings.Trim(text, "\n"), "\n", "\n"+spaces)
}

// oneVersion is a definition with v1 alone, whose schema has the properties.
func oneVersion(properties string) string {
	return "versions:\n- name: v1\n  served: true\n  storage: true\n  schema:\n    openAPIV3Schema:\n      type: object\n      properties:\n" + indent(8, properties)
}

// define makes a kind and waits until its objects are served.
func (w *world) define(t *testing.T, kind, spec string) objects {
	t.Helper()
	return w.create(t, parse(t, kind, spec))
}

func (w *world) create(t *testing.T, definition *apiextensionsv1.CustomResourceDefinition) objects {
	t.Helper()
	if _, err := w.definitions().Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o := w.objects(definition.Spec.Names.Plural, definition.Spec.Names.Kind, definition.Spec.Versions[0].Name)
	if definition.Spec.Scope == apiextensionsv1.ClusterScoped {
		o.ResourceInterface = w.Dynamic.Resource(o.resource(definition.Spec.Names.Plural))
	}
	client := w.APIExtensions.ApiextensionsV1().RESTClient()
	framework.Eventually(t, patience, func() error {
		// The client would wait for a second where it is told to try again.
		return client.Get().AbsPath("/apis", group, o.version, definition.Spec.Names.Plural).MaxRetries(0).Do(t.Context()).Error()
	})
	return o
}

func (w *world) definitions() apiextensionsclient.CustomResourceDefinitionInterface {

	return w.APIExtensions.ApiextensionsV1().CustomResourceDefinitions()
}

// change updates a definition.
func (w *world) change(t *testing.T, plural string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	framework.Eventually(t, patience, func() error {
		definition, err := w.definitions().Get(t.Context(), plural+"."+group, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(definition)
		_, err = w.definitions().Update(t.Context(), definition, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		return err
	})
}

// wantCondition waits for a condition of a definition.
func (w *world) wantCondition(t *testing.T, plural string, kind apiextensionsv1.CustomResourceDefinitionConditionType, status apiextensionsv1.ConditionStatus, message string) {
	t.Helper()
	framework.Eventually(t, patience, func() error {
		definition, err := w.definitions().Get(t.Context(), plural+"."+group, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range definition.Status.Conditions {
			if condition.Type == kind && condition.Status == status && strings.Contains(condition.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v, want %s %s with %q", definition.Status.Conditions, kind, status, message)
	})
}

// objects are those of one kind in the namespace default.
type objects struct {
	dynamic.ResourceInterface
	kind, version string
}

func (w *world) objects(plural, kind, version string) objects {
	resource := schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
	return objects{w.Dynamic.Resource(resource).Namespace("default"), kind, version}
}

// object reads one from YAML, without what all have.
func (o objects) object(t *testing.T, name, content string) *unstructured.Unstructured {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(content), &object); err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetAPIVersion(group + "/" + o.version)
	u.SetKind(o.kind)
	u.SetName(name)
	return u
}

// create makes an object.
func (o objects) create(t *testing.T, name, content string) *unstructured.Unstructured {
	t.Helper()
	created, err := o.Create(t.Context(), o.object(t, name, content), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// merge patches an object.
func (o objects) merge(ctx context.Context, name, patch string, subresources ...string) (*unstructured.Unstructured, error) {
	return o.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
}

// content is an object without metadata.
func content(object *unstructured.Unstructured) map[string]any {
	copied := object.DeepCopy().Object
	for _, key := range []string{"apiVersion", "kind", "metadata"} {
		delete(copied, key)
	}
	return copied
}

func (o objects) resource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: o.version, Resource: plural}
}

// errNotYet is what is being waited for.
func errNotYet(what string, got error) error { return fmt.Errorf("%s is not in effect: %w", what, got) }

// wantInvalid wants a 422 that says all of it.
func wantInvalid(t *testing.T, err error, words ...string) {
	t.Helper()
	if !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want 422", err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
}
