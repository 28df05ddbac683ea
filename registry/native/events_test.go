// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applyeventsv1 "k8s.io/client-go/applyconfigurations/events/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/kube-annex/annex/generated/openapi"
	nativeopenapi "github.com/kube-annex/annex/generated/openapi/native"
	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/registry/native/core"
	"github.com/kube-annex/annex/registry/native/internal/events"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

var (
	legacyEvents = schema.GroupResource{Resource: "events"}
	newerEvents  = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
)

// eventServer serves Events in both groups, or in all but one.
type eventServer struct {
	*resourcetest.Server
	legacy coreclient.EventInterface
	newer  eventsclient.EventInterface
}

func startEvents(t *testing.T, prefix string, ttl time.Duration, without ...schema.GroupResource) eventServer {
	t.Helper()
	kinds, err := native.WithoutResources(without...)
	if err != nil {
		t.Fatal(err)
	}
	scheme := kinds.NewScheme()
	kept := core.NewEvents(ttl)
	groups := map[schema.GroupResource]resourcetest.Group{
		legacyEvents: {Version: core.GroupVersion, Install: resource.Installer([]resource.Served{kept.Served()})},
		newerEvents:  {Version: events.GroupVersion, Install: resource.Installer(events.Kinds(kept))},
	}
	maps.DeleteFunc(groups, func(kind schema.GroupResource, _ resourcetest.Group) bool { return !kinds.Serve(kind) })
	all := slices.Collect(maps.Values(groups))
	server := resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme), Prefix: prefix,
		Version: all[0].Version, Install: all[0].Install, Before: all[1:],
		Definitions: func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
			definitions := openapi.GetOpenAPIDefinitions(ref)
			maps.Copy(definitions, nativeopenapi.GetOpenAPIDefinitions(ref))
			return definitions
		},
	})
	return eventServer{Server: server, legacy: legacyClient(t, server.Config), newer: newerClient(t, server.Config)}
}

func legacyClient(t *testing.T, config *rest.Config) coreclient.EventInterface {
	t.Helper()
	client, err := coreclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Events("team")
}

func newerClient(t *testing.T, config *rest.Config) eventsclient.EventInterface {
	t.Helper()
	client, err := eventsclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Events("team")
}

// stored returns the only stored object, and its key.
func (s eventServer) stored(t *testing.T) (string, *corev1.Event) {
	t.Helper()
	response, err := s.Etcd.Get(t.Context(), s.Prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if len(response.Kvs) != 1 {
		t.Fatalf("etcd has %d keys, want the one of the event", len(response.Kvs))
	}
	value := response.Kvs[0].Value
	if !strings.HasPrefix(string(value), "k8s\x00") {
		t.Fatalf("the stored bytes are not protobuf: %q", value)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object, err := runtime.Decode(serializer.NewCodecFactory(scheme).UniversalDeserializer(), value)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(string(response.Kvs[0].Key), s.Prefix), object.(*corev1.Event)
}

func done[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// next returns the next change that a watch tells of.
func next[T runtime.Object](t *testing.T, from watch.Interface) (what watch.EventType, object T) {
	t.Helper()
	select {
	case event, open := <-from.ResultChan():
		var is bool
		if object, is = event.Object.(T); !open || !is {
			t.Fatalf("the watch tells of %v", event)
		}
		what = event.Type
	case <-time.After(20 * time.Second):
		t.Fatal("the watch tells of nothing")
	}
	return what, object
}

func TestEventsOfOldClientsInTheNewGroup(t *testing.T) {
	t.Parallel()
	s := startEvents(t, "", 0)
	watched := done[watch.Interface](t)(s.newer.Watch(t.Context(), metav1.ListOptions{}))
	defer watched.Stop()

	at := metav1.NewTime(time.Now().Truncate(time.Second))
	created := done[*corev1.Event](t)(s.legacy.Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "OLD_name", Labels: map[string]string{"a": "b"}},
		InvolvedObject: corev1.ObjectReference{Kind: "Thing", Namespace: "team", Name: "t", FieldPath: "spec.part"},
		Reason:         "Done", Message: "it is done", Type: "Warning", Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source: corev1.EventSource{Component: "c", Host: "h"},
	}, metav1.CreateOptions{}))
	want := &eventsv1.Event{
		ObjectMeta: created.ObjectMeta,
		Regarding:  created.InvolvedObject,
		Reason:     "Done", Note: "it is done", Type: "Warning",
		DeprecatedCount: 1, DeprecatedFirstTimestamp: at, DeprecatedLastTimestamp: at, DeprecatedSource: created.Source,
	}
	got := done[*eventsv1.Event](t)(s.newer.Get(t.Context(), "OLD_name", metav1.GetOptions{}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read in events.k8s.io (-want,+got):\n%s", diff)
	}
	list := done[*eventsv1.EventList](t)(s.newer.List(t.Context(), metav1.ListOptions{}))
	if diff := cmp.Diff([]eventsv1.Event{*want}, list.Items); diff != "" {
		t.Errorf("listed in events.k8s.io (-want,+got):\n%s", diff)
	}
	if what, event := next[*eventsv1.Event](t, watched); what != watch.Added || !cmp.Equal(want, event) {
		t.Errorf("watched in events.k8s.io: %s (-want,+got):\n%s", what, cmp.Diff(want, event))
	}
	if key, object := s.stored(t); key != "/core/events/team/OLD_name" || object.InvolvedObject.Name != "t" {
		t.Errorf("stored at %s: %v", key, object)
	}

	// The newer group lets nobody change what happened.
	if _, err := s.newer.Patch(t.Context(), "OLD_name", types.MergePatchType, []byte(`{"note":"other"}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("changing the note: got %v, want 422", err)
	}
	done[*eventsv1.Event](t)(s.newer.Patch(t.Context(), "OLD_name", types.MergePatchType, []byte(`{"metadata":{"labels":{"c":"d"}}}`), metav1.PatchOptions{}))
	if _, event := next[*eventsv1.Event](t, watched); event.Labels["c"] != "d" {
		t.Errorf("watched the patch as %v", event)
	}
	if err := s.newer.Delete(t.Context(), "OLD_name", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.legacy.Get(t.Context(), "OLD_name", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after its deletion in events.k8s.io: got %v, want 404", err)
	}
	if what, _ := next[*eventsv1.Event](t, watched); what != watch.Deleted {
		t.Errorf("watched the deletion as %s", what)
	}
}

func newEvent(name string) *eventsv1.Event {
	at := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name}, EventTime: at, Type: "Normal", Reason: "Done", Action: "Doing", Note: "it is done",
		ReportingController: "example.com/reporter", ReportingInstance: "reporter-1",
		Regarding: corev1.ObjectReference{Kind: "Thing", Namespace: "team", Name: "t", UID: "u"},
		Related:   &corev1.ObjectReference{Kind: "Other", Name: "o"},
		Series:    &eventsv1.EventSeries{Count: 2, LastObservedTime: at},
	}
}

func TestEventsOfNewClientsInTheLegacyGroup(t *testing.T) {
	t.Parallel()
	s := startEvents(t, "", 0)
	protobuf := rest.CopyConfig(s.Config)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	legacy, newer := legacyClient(t, protobuf), newerClient(t, protobuf)
	watched := done[watch.Interface](t)(legacy.Watch(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=u,reportingComponent=example.com/reporter"}))
	defer watched.Stop()

	created := done[*eventsv1.Event](t)(newer.Create(t.Context(), newEvent("new"), metav1.CreateOptions{}))
	want := &corev1.Event{
		ObjectMeta: created.ObjectMeta, EventTime: created.EventTime, Type: "Normal", Reason: "Done", Action: "Doing", Message: "it is done",
		ReportingController: "example.com/reporter", ReportingInstance: "reporter-1", InvolvedObject: created.Regarding, Related: created.Related,
		Series: &corev1.EventSeries{Count: 2, LastObservedTime: created.EventTime},
	}
	got := done[*corev1.Event](t)(legacy.Get(t.Context(), "new", metav1.GetOptions{}))
	got.TypeMeta = metav1.TypeMeta{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read in the legacy group (-want,+got):\n%s", diff)
	}
	if what, event := next[*corev1.Event](t, watched); what != watch.Added || event.Message != "it is done" {
		t.Errorf("watched in the legacy group: %s %v", what, event)
	}
	if key, object := s.stored(t); key != "/core/events/team/new" || object.Message != "it is done" {
		t.Errorf("stored at %s: %v", key, object)
	}

	got.Message = "changed"
	done[*corev1.Event](t)(legacy.Update(t.Context(), got, metav1.UpdateOptions{}))
	if changed := done[*eventsv1.Event](t)(newer.Get(t.Context(), "new", metav1.GetOptions{})); changed.Note != "changed" {
		t.Errorf("after an update in the legacy group the note is %q", changed.Note)
	}
	if err := legacy.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "type=Normal,source=example.com/reporter"}); err != nil {
		t.Fatal(err)
	}
	if _, err := newer.Get(t.Context(), "new", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after its deletion in the legacy group: got %v, want 404", err)
	}
}

func TestApplyingAnEventInBothGroups(t *testing.T) {
	t.Parallel()
	s := startEvents(t, "", 0)
	at := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
	newer := applyeventsv1.Event("e", "team").WithEventTime(at).WithType("Normal").WithReason("Done").WithAction("Doing").WithReportingController("c").WithReportingInstance("i").
		WithRegarding(applycorev1.ObjectReference().WithKind("Thing").WithNamespace("team"))
	versions := map[string]bool{}
	for range 2 {
		versions[done[*eventsv1.Event](t)(s.newer.Apply(t.Context(), newer, metav1.ApplyOptions{FieldManager: "new"})).ResourceVersion] = true
	}
	legacy := applycorev1.Event("e", "team").WithMessage("it is done").WithCount(2)
	for range 2 {
		versions[done[*corev1.Event](t)(s.legacy.Apply(t.Context(), legacy, metav1.ApplyOptions{FieldManager: "old"})).ResourceVersion] = true
	}
	if len(versions) != 2 {
		t.Errorf("two applies, each done twice, wrote %d times", len(versions))
	}
	got := done[*eventsv1.Event](t)(s.newer.Get(t.Context(), "e", metav1.GetOptions{}))
	if got.Reason != "Done" || got.Note != "it is done" || got.DeprecatedCount != 2 {
		t.Errorf("applied in both groups: %v", got)
	}
	// Who owns which field is known for the group of the last write, as with Kubernetes.
	owners := map[string]string{}
	for _, entry := range got.ManagedFields {
		owners[entry.Manager] = entry.APIVersion
	}
	if diff := cmp.Diff(map[string]string{"old": "v1"}, owners); diff != "" {
		t.Errorf("owners of fields (-want,+got):\n%s", diff)
	}
	// What an owner no longer applies goes.
	applied := done[*corev1.Event](t)(s.legacy.Apply(t.Context(), applycorev1.Event("e", "team").WithMessage("it is done"), metav1.ApplyOptions{FieldManager: "old"}))
	if applied.Count != 0 || applied.Message != "it is done" || applied.Reason != "Done" {
		t.Errorf("after one field was left out: %v", applied)
	}
}

func TestEitherGroupOfEventsServesAlone(t *testing.T) {
	t.Parallel()
	prefix := "/" + strings.ToLower(t.Name())
	only := map[string]eventServer{
		"legacy":                                 startEvents(t, prefix, 0, newerEvents),
		"newer":                                  startEvents(t, prefix, 0, legacyEvents),
		"newer, and nothing of the legacy group": startEvents(t, prefix, 0, schema.GroupResource{}),
	}
	done[*eventsv1.Event](t)(only["newer"].newer.Create(t.Context(), newEvent("e"), metav1.CreateOptions{}))
	if key, object := only["newer"].stored(t); key != "/core/events/team/e" || object.Message != "it is done" {
		t.Errorf("stored at %s: %v", key, object)
	}
	got := done[*corev1.Event](t)(only["legacy"].legacy.Patch(t.Context(), "e", types.MergePatchType, []byte(`{"message":"changed"}`), metav1.PatchOptions{}))
	if got.Action != "Doing" || got.InvolvedObject.UID != "u" {
		t.Errorf("what the newer group wrote, read where there is only the legacy one: %v", got)
	}
	for _, without := range []string{"newer", "newer, and nothing of the legacy group"} {
		if changed := done[*eventsv1.Event](t)(only[without].newer.Get(t.Context(), "e", metav1.GetOptions{})); changed.Note != "changed" {
			t.Errorf("what the legacy group wrote, read where there is only the newer one: %v", changed)
		}
	}
	done[*eventsv1.Event](t)(only["newer, and nothing of the legacy group"].newer.Patch(t.Context(), "e", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))
	if _, err := only["newer"].legacy.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the legacy group is off: got %v, want 404", err)
	}
	if _, err := only["legacy"].newer.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the newer group is off: got %v, want 404", err)
	}
}

// leaseTTL returns for how many seconds etcd keeps the only stored object after a write.
func (s eventServer) leaseTTL(t *testing.T) int64 {
	t.Helper()
	response := done[*clientv3.GetResponse](t)(s.Etcd.Get(t.Context(), s.Prefix, clientv3.WithPrefix()))
	if len(response.Kvs) != 1 || response.Kvs[0].Lease == 0 {
		t.Fatalf("want one key with a lease, got %v", response.Kvs)
	}
	return done[*clientv3.LeaseTimeToLiveResponse](t)(s.Etcd.TimeToLive(t.Context(), clientv3.LeaseID(response.Kvs[0].Lease))).GrantedTTL
}

func TestEventsAreKeptAnHourAfterEachWrite(t *testing.T) {
	t.Parallel()
	prefix := "/" + strings.ToLower(t.Name())
	short, standard := startEvents(t, prefix, 100*time.Second), startEvents(t, prefix, 0)
	done[*eventsv1.Event](t)(short.newer.Create(t.Context(), newEvent("e"), metav1.CreateOptions{}))
	if ttl := short.leaseTTL(t); ttl < 100 || ttl > 110 {
		t.Errorf("created where they are kept for 100 s, it goes after %d s", ttl)
	}
	for name, write := range map[string]func() error{
		"legacy": func() error {
			_, err := standard.legacy.Patch(t.Context(), "e", types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
			return err
		},
		"newer": func() error {
			_, err := standard.newer.Patch(t.Context(), "e", types.MergePatchType, []byte(`{"series":{"count":3}}`), metav1.PatchOptions{})
			return err
		},
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		// Leases are shared by writes of the same minute.
		if ttl := standard.leaseTTL(t); ttl < 3600 || ttl > 3660 {
			t.Errorf("written in the %s group, it goes after %d s, want an hour", name, ttl)
		}
	}
}

func TestEventsGoByThemselves(t *testing.T) {
	t.Parallel()
	s := startEvents(t, "", time.Second)
	legacy := done[watch.Interface](t)(s.legacy.Watch(t.Context(), metav1.ListOptions{}))
	defer legacy.Stop()
	newer := done[watch.Interface](t)(s.newer.Watch(t.Context(), metav1.ListOptions{}))
	defer newer.Stop()
	done[*eventsv1.Event](t)(s.newer.Create(t.Context(), newEvent("e"), metav1.CreateOptions{}))
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
		inLegacy, _ := next[*corev1.Event](t, legacy)
		inNewer, _ := next[*eventsv1.Event](t, newer)
		if inLegacy != want || inNewer != want {
			t.Fatalf("the watches tell of %s and %s, want %s", inLegacy, inNewer, want)
		}
	}
}
