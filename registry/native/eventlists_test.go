// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

func TestFieldSelectorsOfEvents(t *testing.T) {
	t.Parallel()
	s := startEvents(t, "", 0)
	done[*eventsv1.Event](t)(s.newer.Create(t.Context(), newEvent("new"), metav1.CreateOptions{}))
	done[*corev1.Event](t)(s.legacy.Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "old"},
		InvolvedObject: corev1.ObjectReference{Kind: "Other", Namespace: "team", Name: "o", APIVersion: "v2", ResourceVersion: "7", FieldPath: "p"},
		Reason:         "Tried", Type: "Warning", Source: corev1.EventSource{Component: "c"},
	}, metav1.CreateOptions{}))
	for selectors, want := range map[[2]string]string{
		{"involvedObject.kind=Thing", "regarding.kind=Thing"}:                          "new",
		{"involvedObject.namespace=team", "regarding.namespace=team"}:                  "new old",
		{"involvedObject.name=o", "regarding.name=o"}:                                  "old",
		{"involvedObject.uid=u", "regarding.uid=u"}:                                    "new",
		{"involvedObject.apiVersion=v2", "regarding.apiVersion=v2"}:                    "old",
		{"involvedObject.resourceVersion=7", "regarding.resourceVersion=7"}:            "old",
		{"involvedObject.fieldPath=p", "regarding.fieldPath=p"}:                        "old",
		{"reason=Tried", "reason=Tried"}:                                               "old",
		{"reportingComponent!=", "reportingController!="}:                              "new",
		{"type=Normal", "type=Normal"}:                                                 "new",
		{"metadata.name=old", "metadata.name=old"}:                                     "old",
		{"metadata.namespace=team,reason=Done", "metadata.namespace=team,reason=Done"}: "new",
		{"source=c", ""}:                                      "old",
		{"source=example.com/reporter", ""}:                   "new",
		{"regarding.kind=Thing", "involvedObject.kind=Thing"}: "400",
		{"message=x", "source=c"}:                             "400",
	} {
		listed := [2]string{"400", "400"}
		if list, err := s.legacy.List(t.Context(), metav1.ListOptions{FieldSelector: selectors[0]}); !apierrors.IsBadRequest(err) {
			listed[0] = names(t, list, err)
		}
		if list, err := s.newer.List(t.Context(), metav1.ListOptions{FieldSelector: selectors[1]}); selectors[1] == "" {
			listed[1] = want
		} else if !apierrors.IsBadRequest(err) {
			listed[1] = names(t, list, err)
		}
		if diff := cmp.Diff([2]string{want, want}, listed); diff != "" {
			t.Errorf("%q in the legacy group, %q in the newer one (-want,+got):\n%s", selectors[0], selectors[1], diff)
		}
	}
}

// names returns the names in a list.
func names(t *testing.T, list runtime.Object, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	switch list := list.(type) {
	case *corev1.EventList:
		for _, event := range list.Items {
			out = append(out, event.Name)
		}
	case *eventsv1.EventList:
		for _, event := range list.Items {
			out = append(out, event.Name)
		}
	}
	return strings.Join(out, " ")
}

func TestTableOfEvents(t *testing.T) {
	t.Parallel()
	s := startEvents(t, "", 0)
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	old := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "a-old"}, Reason: "Done", Message: " done \n", Type: "Warning", Count: 7,
		InvolvedObject: corev1.ObjectReference{Kind: "Thing", Namespace: "team", Name: "t", FieldPath: "p"},
		FirstTimestamp: metav1.NewTime(ago(2 * time.Hour)), LastTimestamp: metav1.NewTime(ago(10*time.Minute + 2*time.Second)),
		Source: corev1.EventSource{Component: "c", Host: "h"},
	}
	done[*corev1.Event](t)(s.legacy.Create(t.Context(), old, metav1.CreateOptions{}))
	done[*corev1.Event](t)(s.legacy.Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "b-bare"}, InvolvedObject: corev1.ObjectReference{Namespace: "team"},
	}, metav1.CreateOptions{}))
	once := newEvent("c-once")
	once.Series, once.EventTime = nil, metav1.NewMicroTime(ago(3*time.Hour))
	done[*eventsv1.Event](t)(s.newer.Create(t.Context(), once, metav1.CreateOptions{}))
	again := newEvent("d-again")
	again.EventTime, again.Series.LastObservedTime = metav1.NewMicroTime(ago(3*time.Hour)), metav1.NewMicroTime(ago(time.Hour*2))
	done[*eventsv1.Event](t)(s.newer.Create(t.Context(), again, metav1.CreateOptions{}))
	want := []string{
		"Last Seen|Type|Reason|Object|Subobject|Source|Message|First Seen|Count|Name",
		"10m|Warning|Done|thing/t|p|c, h|done|120m|7|a-old",
		"<unknown>||||||" + "|<unknown>|1|b-bare",
		"3h|Normal|Done|thing/t||example.com/reporter, reporter-1|it is done|3h|1|c-once",
		"120m|Normal|Done|thing/t||example.com/reporter, reporter-1|it is done|3h|2|d-again",
	}
	for _, path := range []string{"/api/v1", "/apis/events.k8s.io/v1"} {
		if diff := cmp.Diff(want, table(t, s.Config, path+"/namespaces/team/events")); diff != "" {
			t.Errorf("table at %s (-want,+got):\n%s", path, diff)
		}
	}
}

// table returns the table of what is at a path, with bars between cells.
func table(t *testing.T, config *rest.Config, path string) []string {
	t.Helper()
	client := done[*coreclient.CoreV1Client](t)(coreclient.NewForConfig(config))
	answer := client.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").Do(t.Context())
	raw := done[[]byte](t)(answer.Raw())
	var shown metav1.Table
	if err := runtime.DecodeInto(metav1Codec(), raw, &shown); err != nil {
		t.Fatal(err)
	}
	var header []string
	for _, column := range shown.ColumnDefinitions {
		header = append(header, column.Name)
	}
	out := []string{strings.Join(header, "|")}
	for _, row := range shown.Rows {
		var cells []string
		for _, cell := range row.Cells {
			cells = append(cells, fmt.Sprint(cell))
		}
		out = append(out, strings.Join(cells, "|"))
	}
	return out
}

func metav1Codec() runtime.Codec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	return serializer.NewCodecFactory(scheme).LegacyCodec(metav1.SchemeGroupVersion)
}
