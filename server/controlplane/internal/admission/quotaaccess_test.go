// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// written is a quota with a uid, in a version.
func written(uid types.UID, version string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: uid, ResourceVersion: version}}
}

// TestTheNewestKnownVersionOfAQuotaIsUsed compares the informer's quota with the one that this server has written.
func TestTheNewestKnownVersionOfAQuotaIsUsed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		informed, remembered *corev1.ResourceQuota
		want                 string
		kept                 bool // whether the remembered version is still needed
	}{
		"nothing was written":        {informed: written("1", "5"), want: "5"},
		"the informer is behind":     {informed: written("1", "5"), remembered: written("1", "7"), want: "7", kept: true},
		"the informer has it":        {informed: written("1", "7"), remembered: written("1", "7"), want: "7"},
		"the informer is ahead":      {informed: written("1", "10"), remembered: written("1", "7"), want: "10"},
		"another one by that name":   {informed: written("2", "5"), remembered: written("1", "7"), want: "5"},
		"a version without an order": {informed: written("1", "x"), remembered: written("1", "7"), want: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if err := store.Add(tc.informed); err != nil {
				t.Fatal(err)
			}
			access := newQuotaAccess()
			access.lister, access.synced = listers.NewResourceQuotaLister(store), func() bool { return true }
			if tc.remembered != nil {
				access.remembered.Add("ns/a", tc.remembered)
			}
			got, err := access.latest(t.Context(), "ns")
			if err != nil || len(got) != 1 || got[0].ResourceVersion != tc.want {
				t.Errorf("got %v, %v; want version %s", got, err, tc.want)
			}
			if _, kept := access.remembered.Get("ns/a"); kept != tc.kept {
				t.Errorf("the written version is remembered: %t, want %t", kept, tc.kept)
			}
		})
	}
}

func TestWhatWasWrittenIsKnownBeforeTheInformerKnows(t *testing.T) {
	t.Parallel()
	quota := written("1", "5")
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := store.Add(quota); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	var fails error
	client.PrependReactor("update", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, written("1", "6"), fails
	})
	access := newQuotaAccess()
	access.client, access.lister, access.synced = client.CoreV1(), listers.NewResourceQuotaLister(store), func() bool { return true }
	for _, tc := range []struct {
		fails error
		want  string
	}{{errors.New("away"), "5"}, {nil, "6"}} {
		fails = tc.fails
		if err := access.write(t.Context(), quota); !errors.Is(err, tc.fails) {
			t.Errorf("got %v, want %v", err, tc.fails)
		}
		if got, err := access.latest(t.Context(), "ns"); err != nil || got[0].ResourceVersion != tc.want {
			t.Errorf("after a write with %v: got %v, %v; want version %s", tc.fails, got, err, tc.want)
		}
	}
}

func TestRequestsAreRefusedWhileQuotasCannotBeRead(t *testing.T) {
	t.Parallel()
	plugin, err := newQuotas(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	client.PrependReactor("list", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("away") })
	quotas := plugin.(*quotas)
	quotas.SetExternalKubeClientSet(client)
	quotas.SetExternalKubeInformerFactory(informers.NewSharedInformerFactory(client, 0))
	if err := quotas.Validate(t.Context(), secret("x").Attributes, nil); err == nil {
		t.Error("a request was let pass")
	}
}

func TestAQuotaMadeAgainIsNotTheSame(t *testing.T) {
	t.Parallel()
	access := newQuotaAccess()
	access.client = fake.NewClientset(written("2", "9")).CoreV1()
	if got, err := access.current(t.Context(), written("1", "5")); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, %v; want NotFound", got, err)
	}
	if got, err := access.current(t.Context(), written("2", "5")); err != nil || got.ResourceVersion != "9" {
		t.Errorf("got %v, %v; want version 9", got, err)
	}
}

// TestRequestsThatQuotasConcern has quotas of a namespace that have no room for anything.
func TestRequestsThatQuotasConcern(t *testing.T) {
	t.Parallel()
	const needed = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\nlimitedResources: [{resource: secrets, matchContains: [secrets]}]"
	full := limited("a", "count/widgets.example.com", 0, 0)
	secrets := limited("b", "secrets", 0, 0)
	events := limited("c", "count/events", 0, 0)
	for name, tc := range map[string]struct {
		resource               schema.GroupVersionResource
		namespace, subresource string
		quotas                 []runtime.Object
		configuration          string
		refused                bool
	}{
		"an object":                        {resource: corev1.SchemeGroupVersion.WithResource("secrets"), namespace: "ns", quotas: []runtime.Object{full, secrets}, refused: true},
		"an object of a custom resource":   {resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, namespace: "ns", quotas: []runtime.Object{full}, refused: true},
		"an object that no quota counts":   {resource: corev1.SchemeGroupVersion.WithResource("configmaps"), namespace: "ns", quotas: []runtime.Object{full, secrets}},
		"an object of another namespace":   {resource: corev1.SchemeGroupVersion.WithResource("secrets"), namespace: "other", quotas: []runtime.Object{secrets}},
		"an object outside of a namespace": {resource: corev1.SchemeGroupVersion.WithResource("secrets"), quotas: []runtime.Object{secrets}},
		"a subresource":                    {resource: corev1.SchemeGroupVersion.WithResource("secrets"), namespace: "ns", subresource: "status", quotas: []runtime.Object{secrets}},
		"a kind that is never counted":     {resource: corev1.SchemeGroupVersion.WithResource("events"), namespace: "ns", quotas: []runtime.Object{events}},
		"a namespace":                      {resource: corev1.SchemeGroupVersion.WithResource("namespaces"), namespace: "ns", quotas: []runtime.Object{limited("d", "count/namespaces", 0, 0)}},
		"no quotas":                        {resource: corev1.SchemeGroupVersion.WithResource("secrets"), namespace: "ns"},
		"no quotas, where one is needed":   {resource: corev1.SchemeGroupVersion.WithResource("secrets"), namespace: "ns", configuration: needed, refused: true},
		"another kind than needs one":      {resource: corev1.SchemeGroupVersion.WithResource("configmaps"), namespace: "ns", configuration: needed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var configuration io.Reader
			if tc.configuration != "" {
				configuration = strings.NewReader(tc.configuration)
			}
			plugin, err := newQuotas(configuration)
			if err != nil {
				t.Fatal(err)
			}
			quotas := plugin.(*quotas)
			if quotas.ValidateInitialization() == nil {
				t.Error("the plugin may run without a client")
			}
			client := fake.NewClientset(tc.quotas...)
			quotas.SetExternalKubeClientSet(client)
			if quotas.ValidateInitialization() == nil {
				t.Error("the plugin may run without informers")
			}
			quotas.SetExternalKubeInformerFactory(informers.NewSharedInformerFactory(client, 0))
			if err := quotas.ValidateInitialization(); err != nil {
				t.Error(err)
			}
			request := admission.NewAttributesRecord(&corev1.Secret{}, nil, tc.resource.GroupVersion().WithKind("X"), tc.namespace, "x", tc.resource,
				tc.subresource, admission.Create, &metav1.CreateOptions{}, false, nil)
			err = quotas.Validate(t.Context(), request, nil)
			if apierrors.IsForbidden(err) != tc.refused || !tc.refused && err != nil {
				t.Errorf("got %v, want it refused: %t", err, tc.refused)
			}
		})
	}
}
