// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	featuresinstall "github.com/kube-annex/annex/apis/features/install"
	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/registry/features"
	"github.com/kube-annex/annex/server/extension/admission"
)

// TestFeatureThatALiveServerAnnouncesIsNotDeleted deletes Features one by one and as a collection, in a namespace that stays and in
// one that is being deleted.
func TestFeatureThatALiveServerAnnouncesIsNotDeleted(t *testing.T) {
	t.Parallel()
	factory := informers.NewSharedInformerFactory(nil, 0)
	namespaces := factory.Core().V1().Namespaces().Informer().GetIndexer()
	for name, terminating := range map[string]*metav1.Time{"staying": nil, "terminating": {Time: metav1.Now().Time}} {
		if err := namespaces.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: terminating}}); err != nil {
			t.Fatal(err)
		}
	}
	plugin := admission.NewFeatureDeletion()
	if err := plugin.ValidateInitialization(); err == nil {
		t.Error("a plugin without informers is valid")
	}
	plugin.SetExternalKubeInformerFactory(factory)
	server := start(t, featuresv1alpha1.SchemeGroupVersion, featuresinstall.Install, features.Install, plugin)
	client := as(t, server, "alice").FeaturesV1alpha1()

	available := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: featuresv1alpha1.FeatureAvailable, Status: status, Reason: "Test", LastTransitionTime: metav1.Now()}}
	}
	live := func(state featuresv1alpha1.State) featuresv1alpha1.FeatureStatus {
		return featuresv1alpha1.FeatureStatus{State: state, Source: featuresv1alpha1.SourceDefault, Conditions: available(metav1.ConditionTrue)}
	}
	dangling, counted, observed, gone := live(featuresv1alpha1.StateOff), live(featuresv1alpha1.StateOff), live(featuresv1alpha1.StateOn), live(featuresv1alpha1.StateOn)
	dangling.DanglingReferences = &featuresv1alpha1.DanglingReferences{Count: 1}
	counted.DanglingReferences = &featuresv1alpha1.DanglingReferences{}
	observed.Source = featuresv1alpha1.SourceObserved
	gone.Conditions = available(metav1.ConditionFalse)
	create := func(namespace, name string, status featuresv1alpha1.FeatureStatus) {
		t.Helper()
		created, err := client.Features(namespace).Create(t.Context(), &featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		created.Status = status
		if _, err := client.Features(namespace).UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		status  featuresv1alpha1.FeatureStatus
		refused bool
	}{
		"On":                      {live(featuresv1alpha1.StateOn), true},
		"TurningOn":               {live(featuresv1alpha1.StateTurningOn), true},
		"TurningOff":              {live(featuresv1alpha1.StateTurningOff), true},
		"OffAndDangling":          {dangling, true},
		"Off":                     {live(featuresv1alpha1.StateOff), false},
		"OffAndCounted":           {counted, false},
		"Observed":                {observed, false},
		"AnnouncedByNoLiveOne":    {gone, false},
		"NeverAnnounced":          {featuresv1alpha1.FeatureStatus{}, false},
		"OnWhereTheNamespaceEnds": {live(featuresv1alpha1.StateOn), false},
	} {
		namespace := "staying"
		if name == "OnWhereTheNamespaceEnds" {
			namespace = "terminating"
		}
		create(namespace, name, tc.status)
		dryRun := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		for verb, err := range map[string]error{
			"dry-run delete":   client.Features(namespace).Delete(t.Context(), name, dryRun),
			"deletecollection": client.Features(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + name}),
		} {
			switch {
			case tc.refused:
				wantForbidden(t, verb+" of "+name, err, "turn it off by spec.desired or --feature-gates and wait until it is Off")
			case err != nil:
				t.Errorf("%s of %s: %v", verb, name, err)
			}
		}
		if tc.refused {
			wantForbidden(t, "delete of "+name, client.Features(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}), "a live server announces the feature, which is "+string(tc.status.State))
		}
	}
	create("terminating", "On", live(featuresv1alpha1.StateOn))
	if err := client.Features("terminating").Delete(t.Context(), "On", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete in a namespace that is being deleted: %v", err)
	}
}
