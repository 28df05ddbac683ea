// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"

	internal "github.com/kube-annex/annex/apis/features"
	"github.com/kube-annex/annex/apis/features/install"
	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/openapi"
	"github.com/kube-annex/annex/registry/features"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

// policy labels Features, and denies those whose names begin with Denied, and uses whose component is "denied".
type policy struct {
	mu   sync.Mutex
	seen []string
}

func (p *policy) Handles(admission.Operation) bool { return true }

func (p *policy) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if feature, ok := a.GetObject().(*internal.Feature); ok && a.GetOperation() == admission.Create {
		feature.Labels = map[string]string{"admitted-for": a.GetUserInfo().GetName()}
	}
	return nil
}

func (p *policy) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.GetKind().Kind != "Feature" {
		return nil
	}
	old := 0
	if before, ok := a.GetOldObject().(*internal.Feature); ok {
		old = len(before.Status.Uses)
	}
	feature := a.GetObject().(*internal.Feature)
	p.seen = append(p.seen, fmt.Sprintf("%s %s/%s %s/%s by %s, %d uses, then %d", a.GetOperation(), a.GetResource().Resource, a.GetSubresource(),
		a.GetNamespace(), a.GetName(), a.GetUserInfo().GetName(), old, len(feature.Status.Uses)))
	denied := slices.ContainsFunc(feature.Status.Uses, func(use internal.Use) bool { return use.Component == "denied" })
	if denied || strings.HasPrefix(a.GetName(), "Denied") {
		return admission.NewForbidden(a, errors.New("the policy denies it"))
	}
	return nil
}

// TestReportsPassAdmissionAsTheFeaturesThatTheyChange has a report create and change Features under a policy about Features.
func TestReportsPassAdmissionAsTheFeaturesThatTheyChange(t *testing.T) {
	t.Parallel()
	scheme, rules := resource.NewScheme(install.Install), &policy{}
	server := resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme), Definitions: openapi.GetOpenAPIDefinitions,
		Version: v1alpha1.SchemeGroupVersion, Install: features.Install, Admission: rules,
	})
	client := clientFor(t, server).FeaturesV1alpha1()
	send := func(component string, names ...string) error {
		_, err := client.FeatureReports("ns").Create(t.Context(), report(component, "v1", v1alpha1.ValueEnabled, names...), metav1.CreateOptions{})
		return err
	}
	if err := send("scheduler", "DeniedGate", "Gate"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the policy denies it") {
		t.Errorf("a report of a Feature that the policy denies: got %v, want 403 with the reason", err)
	}
	if _, err := client.Features("ns").Get(t.Context(), "DeniedGate", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Feature that the policy denies: got %v, want NotFound", err)
	}
	if err := send("denied", "Gate"); !apierrors.IsForbidden(err) {
		t.Errorf("a report of a use that the policy denies: got %v, want 403", err)
	}
	got, err := client.Features("ns").Get(t.Context(), "Gate", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("the other Feature of a report that is denied in part: %v", err)
	}
	if len(got.Status.Uses) != 1 || got.Status.Uses[0].Component != "scheduler" {
		t.Errorf("uses: %+v, want that of the scheduler alone", got.Status.Uses)
	}
	if diff := cmp.Diff(map[string]string{"admitted-for": "tester"}, got.Labels); diff != "" {
		t.Errorf("labels by mutating admission (-want,+got):\n%s", diff)
	}
	want := []string{
		"CREATE features/ ns/DeniedGate by tester, 0 uses, then 0",
		"CREATE features/ ns/Gate by tester, 0 uses, then 0",
		"UPDATE features/status ns/Gate by tester, 0 uses, then 1",
		"UPDATE features/status ns/Gate by tester, 1 uses, then 2",
	}
	if diff := cmp.Diff(want, rules.seen); diff != "" {
		t.Errorf("what admission saw of Features (-want,+got):\n%s", diff)
	}
}

// TestReportsCreateFeaturesAtALimitedRate has one user report more unknown gates than may be created at once.
func TestReportsCreateFeaturesAtALimitedRate(t *testing.T) {
	t.Parallel()
	config := start(t).Config
	config.QPS, config.Timeout = -1, 0
	var names []string
	for i := range 1024 {
		names = append(names, fmt.Sprint("Gate", i))
	}
	sent := report("scheduler", "v1", v1alpha1.ValueEnabled, names...)
	client := clientForConfig(t, config).FeaturesV1alpha1()
	err := client.RESTClient().Post().Namespace("ns").Resource("featurereports").MaxRetries(0).Body(sent).Do(t.Context()).Error()
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "512 Features a minute") {
		t.Errorf("a report of 1024 unknown gates: got %v, want 429 that names the limit", err)
	}
	list, err := client.Features("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Some come back while the report is worked on.
	if n := len(list.Items); n < 512 || n >= 1024 {
		t.Errorf("%d Features were created, want 512 and a few more", n)
	}
}
