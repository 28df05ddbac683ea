// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestExampleTasks goes through all tasks of the example server, which is killed in each, and looks at the order of what was stored:
// the cluster keeps CRDs and Features in one etcd, so their resourceVersions can be compared.
func TestExampleTasks(t *testing.T) {
	t.Parallel()
	e := newExample(t)
	off := map[string]bool{frobbing: false}
	e.Start(t, off)
	e.waitFor(t, "Off", func(f *featuresv1alpha1.Feature) bool {
		return settled(f, featuresv1alpha1.StateOff) && f.Status.Dynamic
	})
	history := e.record(t)
	restart := func() {
		e.Kill(t)
		e.Start(t, off)
	}

	// In InstallCRD, of which the beginning is not awaited, and in WaitForUses.
	e.desire(t, featuresv1alpha1.ValueEnabled)
	restart()
	e.waitFor(t, "TurningOn, with use permitted, or On", permits)
	restart()
	e.waitFor(t, "On", func(f *featuresv1alpha1.Feature) bool { return settled(f, featuresv1alpha1.StateOn) })
	established, permitted := history.first(t)
	if order, err := resourceversion.CompareResourceVersion(established, permitted); err != nil || order >= 0 {
		t.Errorf("use was permitted at resourceVersion %s, before the CRD was Established at %s (%v)", permitted, established, err)
	}
	useFrob(t, e.Config())

	// In each of the tasks of turning off.
	e.desire(t, featuresv1alpha1.ValueDisabled)
	e.waitFor(t, "TurningOff", func(f *featuresv1alpha1.Feature) bool { return f.Status.State == featuresv1alpha1.StateTurningOff })
	restart()
	e.waitFor(t, "past WaitForUses", func(f *featuresv1alpha1.Feature) bool {
		return len(f.Status.Tasks) > 0 && f.Status.Tasks[0].Name != featuregate.TaskWaitForUses
	})
	restart()
	waits := func(f *featuresv1alpha1.Feature) bool {
		references := f.Status.DanglingReferences
		return len(f.Status.Tasks) > 0 && f.Status.Tasks[0].Name == "WaitForRemoval" && strings.HasSuffix(f.Status.Tasks[0].Message, ": frobs one") &&
			references != nil && references.Count == 1 && len(references.Examples) == 1 &&
			references.Examples[0] == featuresv1alpha1.ObjectReference{Group: frobs.Group, Resource: frobs.Resource, Name: "one"}
	}
	e.waitFor(t, "waiting for the Frob, by name", waits)
	restart()
	e.waitFor(t, "waiting for the Frob again", waits)
	client := frobClient(t, e.Config())
	if _, err := client.Create(t.Context(), frob("two", 2), metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "Frobbing is being turned off") {
		t.Errorf("a new Frob while the feature is TurningOff gives %v, want a 422 that says why", err)
	}
	if out, err := client.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"size":4}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("one that is there cannot be changed: %v, %v", out, err)
	}
	removeFrob(t, e.Config())
	e.waitFor(t, "past WaitForRemoval", func(f *featuresv1alpha1.Feature) bool {
		return f.Status.State == featuresv1alpha1.StateOff || len(f.Status.Tasks) > 0 && (f.Status.Tasks[0].Name == "RemoveCRD" || f.Status.Tasks[0].Name == lifecycle.CountReferences)
	})
	restart()
	e.waitFor(t, "Off", func(f *featuresv1alpha1.Feature) bool { return settled(f, featuresv1alpha1.StateOff) })
	checkNoFrobs(t, e.Config())
}

func settled(f *featuresv1alpha1.Feature, state featuresv1alpha1.State) bool {
	return f.Status.State == state && meta.IsStatusConditionTrue(f.Status.Conditions, featuresv1alpha1.FeatureSettled)
}

// permits tells whether the Feature permits use.
func permits(f *featuresv1alpha1.Feature) bool {
	return f.Status.State == featuresv1alpha1.StateOn ||
		f.Status.State == featuresv1alpha1.StateTurningOn && len(f.Status.Tasks) > 0 && f.Status.Tasks[0].Name == featuregate.TaskWaitForUses
}

func (e *example) desire(t *testing.T, value featuresv1alpha1.Value) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"desired":%q}}`, value)
	if _, err := e.cluster.Annex.FeaturesV1alpha1().Features(frobNamespace).Patch(t.Context(), frobbing, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (e *example) waitFor(t *testing.T, what string, is func(*featuresv1alpha1.Feature) bool) {
	t.Helper()
	poll.Eventually(t, time.Minute, "the feature is "+what, func(ctx context.Context) error {
		feature, err := e.cluster.Annex.FeaturesV1alpha1().Features(frobNamespace).Get(ctx, frobbing, metav1.GetOptions{})
		if err == nil && !is(feature) {
			err = fmt.Errorf("it is %+v", feature.Status)
		}
		return err
	})
}

// history is what was stored from the time at which it was begun.
type history struct{ features, crds watch.Interface }

func (e *example) record(t *testing.T) history {
	t.Helper()
	features := e.cluster.Annex.FeaturesV1alpha1().Features(frobNamespace)
	list, err := features.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var h history
	if h.features, err = features.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion}); err != nil {
		t.Fatal(err)
	}
	crds := e.cluster.APIExtensions.ApiextensionsV1().CustomResourceDefinitions()
	definitions, err := crds.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h.crds, err = crds.Watch(t.Context(), metav1.ListOptions{ResourceVersion: definitions.ResourceVersion}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.features.Stop)
	t.Cleanup(h.crds.Stop)
	return h
}

// first returns the resourceVersions at which the CRD was first Established, and use first permitted.
func (h history) first(t *testing.T) (established, permitted string) {
	t.Helper()
	for established == "" || permitted == "" {
		select {
		case event := <-h.crds.ResultChan():
			crd, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition)
			if ok && established == "" && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
				established = crd.ResourceVersion
			}
		case event := <-h.features.ResultChan():
			feature, ok := event.Object.(*featuresv1alpha1.Feature)
			if ok && permitted == "" && permits(feature) {
				permitted = feature.ResourceVersion
			}
		case <-t.Context().Done():
			t.Fatal("the test was ended")
		}
	}
	return established, permitted
}
