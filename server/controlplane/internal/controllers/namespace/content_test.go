// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// stored answers with objects of widgets, and records requests.
type stored struct {
	pages    [][]metav1.PartialObjectMetadata
	errs     map[string]error
	requests []string
	// more tells that the next list is the second page.
	more bool
}

func (s *stored) content() content {
	client := fake.NewSimpleMetadataClient(fake.NewTestScheme())
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		request := action.GetVerb()
		if remove, ok := action.(clienttesting.DeleteActionImpl); ok {
			request += " " + remove.Name + " " + string(*remove.DeleteOptions.PropagationPolicy) + " " + string(*remove.DeleteOptions.Preconditions.UID)
		}
		s.requests = append(s.requests, request)
		if err := s.errs[action.GetVerb()]; err != nil {
			return true, nil, err
		}
		if action.GetVerb() != "list" {
			return true, &metav1.PartialObjectMetadata{}, nil
		}
		page, objects := &metav1.List{}, []metav1.PartialObjectMetadata(nil)
		switch {
		case s.more:
			objects, s.more = s.pages[1], false
		case len(s.pages) > 0:
			if objects, s.more = s.pages[0], len(s.pages) > 1; s.more {
				page.Continue = "more"
			}
		}
		for i := range objects {
			page.Items = append(page.Items, runtime.RawExtension{Object: &objects[i]})
		}
		return true, page, nil
	})
	return content{client}
}

func widget(name string, deleted bool, finalizers ...string) metav1.PartialObjectMetadata {
	w := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("uid-" + name), Finalizers: finalizers}}
	if deleted {
		w.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return w
}

func TestWhatIsDeletedInANamespace(t *testing.T) {
	t.Parallel()
	resource := widgets().GroupResource()
	page := func(objects ...metav1.PartialObjectMetadata) [][]metav1.PartialObjectMetadata {
		return [][]metav1.PartialObjectMetadata{objects}
	}
	const each = "delete x Background uid-x"
	for name, tc := range map[string]struct {
		pages      [][]metav1.PartialObjectMetadata
		errs       map[string]error
		collection bool
		want       []string
		left       left
		fails      bool
	}{
		"nothing":           {want: []string{"list"}},
		"one":               {pages: page(widget("x", false)), want: []string{"list", "list", each, "list"}, left: left{objects: 1, untouched: 1}},
		"one, at once":      {pages: page(widget("x", false)), collection: true, want: []string{"list", "delete-collection", "list"}, left: left{objects: 1, untouched: 1}},
		"one being deleted": {pages: page(widget("x", true, "example.com/a")), want: []string{"list"}, left: left{objects: 1, finalizers: map[string]int{"example.com/a": 1}}},
		"one being orphaned": {
			pages: page(widget("x", true, metav1.FinalizerOrphanDependents)), want: []string{"list", "list", each, "list"},
			left: left{objects: 1, untouched: 1, finalizers: map[string]int{metav1.FinalizerOrphanDependents: 1}},
		},
		"one deleted in the foreground": {
			pages: page(widget("x", true, metav1.FinalizerDeleteDependents)), want: []string{"list", "list", each, "list"},
			left: left{objects: 1, untouched: 1, finalizers: map[string]int{metav1.FinalizerDeleteDependents: 1}},
		},
		"one of two is being deleted": {pages: page(widget("y", true), widget("x", false)), want: []string{"list", "list", each, "list"}, left: left{objects: 2, untouched: 1}},
		"two pages": {
			pages: [][]metav1.PartialObjectMetadata{{widget("x", false)}, {widget("y", false, "example.com/a")}},
			want:  []string{"list", "list", "list", each, "list", "delete y Background uid-y", "list", "list"},
			left:  left{objects: 2, untouched: 2, finalizers: map[string]int{"example.com/a": 1}},
		},
		"not at once after all": {
			pages: page(widget("x", false)), collection: true, errs: map[string]error{"delete-collection": apierrors.NewMethodNotSupported(resource, "deletecollection")},
			want: []string{"list", "delete-collection", "list", each, "list"}, left: left{objects: 1, untouched: 1},
		},
		"at once, refused": {
			pages: page(widget("x", false)), collection: true, errs: map[string]error{"delete-collection": errors.New("no")},
			want: []string{"list", "delete-collection"}, left: left{objects: 1, untouched: 1}, fails: true,
		},
		"gone meanwhile":     {pages: page(widget("x", false)), errs: map[string]error{"delete": apierrors.NewNotFound(resource, "x")}, want: []string{"list", "list", each, "list"}, left: left{objects: 1, untouched: 1}},
		"replaced meanwhile": {pages: page(widget("x", false)), errs: map[string]error{"delete": apierrors.NewConflict(resource, "x", nil)}, want: []string{"list", "list", each, "list"}, left: left{objects: 1, untouched: 1}},
		"refused":            {pages: page(widget("x", false)), errs: map[string]error{"delete": errors.New("no")}, want: []string{"list", "list", each}, left: left{objects: 1, untouched: 1}, fails: true},
		"cannot be listed":   {errs: map[string]error{"list": errors.New("away")}, want: []string{"list"}, fails: true},
		"not served":         {errs: map[string]error{"list": apierrors.NewNotFound(resource, "")}, want: []string{"list"}, fails: true},
		"has no list":        {errs: map[string]error{"list": apierrors.NewMethodNotSupported(resource, "list")}, want: []string{"list"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stored{pages: tc.pages, errs: tc.errs}
			k := widgets()
			k.collection = tc.collection
			got, err := s.content().empty(t.Context(), "a", k)
			if (err != nil) != tc.fails {
				t.Errorf("the error is %v, want one %t", err, tc.fails)
			}
			if diff := cmp.Diff(tc.want, s.requests); diff != "" {
				t.Errorf("requests (-want,+got):\n%s", diff)
			}
			if len(got.finalizers) == 0 {
				got.finalizers = nil
			}
			if diff := cmp.Diff(tc.left, got, cmp.AllowUnexported(left{})); diff != "" {
				t.Errorf("left (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestWhatAnAttemptComesTo(t *testing.T) {
	t.Parallel()
	terminating := func(edit ...func(*corev1.Namespace)) *corev1.Namespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}}
		ns.Spec.Finalizers, ns.Status.Phase = []corev1.FinalizerName{corev1.FinalizerKubernetes, "example.com/b"}, corev1.NamespaceTerminating
		for _, f := range edit {
			f(ns)
		}
		return ns
	}
	another := func(ns *corev1.Namespace) { ns.UID = "2" }
	resource := corev1.Resource("namespaces")
	for name, tc := range map[string]struct {
		ns     *corev1.Namespace
		settle time.Duration
		left   [][]metav1.PartialObjectMetadata
		edit   func(*kubernetesfake.Clientset, *Controller)
		want   []string
		waits  bool
		fails  bool
	}{
		"gone":        {want: []string{"get"}},
		"not deleted": {ns: terminating(func(ns *corev1.Namespace) { ns.DeletionTimestamp = nil }), want: []string{"get"}},
		"held by another alone": {
			ns: terminating(func(ns *corev1.Namespace) { ns.Spec.Finalizers = ns.Spec.Finalizers[1:] }), want: []string{"get"},
		},
		"empty":              {ns: terminating(), want: []string{"get", "update status", "create finalize"}},
		"empty, not settled": {ns: terminating(), settle: time.Hour, want: []string{"get", "update status"}, waits: true},
		"empty, held by nobody": {
			ns: terminating(func(ns *corev1.Namespace) { ns.Spec.Finalizers = nil }), want: []string{"get", "update status", "delete"},
		},
		"not empty": {
			ns: terminating(), left: [][]metav1.PartialObjectMetadata{{widget("x", true, "example.com/a")}}, want: []string{"get", "update status"}, fails: true,
		},
		"cannot be read": {ns: terminating(), edit: failing("get", "", errors.New("away")), want: []string{"get"}, fails: true},
		"gone before its conditions are written": {
			ns: terminating(), edit: failing("update", "status", apierrors.NewNotFound(resource, "a")), want: []string{"get", "update status", "create finalize"},
		},
		"its conditions are refused": {ns: terminating(), edit: failing("update", "status", errors.New("no")), want: []string{"get", "update status"}, fails: true},
		"gone before it is let go": {
			ns: terminating(), edit: failing("create", "finalize", apierrors.NewNotFound(resource, "a")), want: []string{"get", "update status", "create finalize"},
		},
		"cannot be let go": {ns: terminating(), edit: failing("create", "finalize", errors.New("no")), want: []string{"get", "update status", "create finalize"}, fails: true},
		"replaced before it is let go": {
			ns: terminating(), want: []string{"get", "update status", "create finalize", "get"}, fails: true,
			edit: func(client *kubernetesfake.Clientset, c *Controller) {
				failing("create", "finalize", apierrors.NewConflict(resource, "a", nil))(client, c)
				reads := 0
				client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
					if reads++; reads == 1 {
						return false, nil, nil
					}
					return true, terminating(another), nil
				})
			},
		},
		"changed once before it is let go": {
			ns: terminating(), want: []string{"get", "update status", "create finalize", "get", "create finalize"},
			edit: func(client *kubernetesfake.Clientset, _ *Controller) {
				writes := 0
				client.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
					if writes++; writes == 1 {
						return true, nil, apierrors.NewConflict(resource, "a", nil)
					}
					return false, nil, nil
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, indexer := kubernetesfake.NewClientset(), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			if tc.ns != nil {
				if err := client.Tracker().Add(tc.ns); err != nil {
					t.Fatal(err)
				}
				if err := indexer.Add(tc.ns); err != nil {
					t.Fatal(err)
				}
			}
			s := &stored{pages: tc.left}
			c := &Controller{
				lister: listers.NewNamespaceLister(indexer), namespaces: client.CoreV1().Namespaces(), content: s.content(), settle: tc.settle,
				kinds: &kinds{last: make(chan answer, 1)}, seen: map[types.UID]time.Time{},
			}
			c.kinds.last <- answer{asked: time.Now().Add(time.Hour), kinds: []kind{widgets()}}
			if tc.edit != nil {
				tc.edit(client, c)
			}
			after, err := c.attempt(t.Context(), "a")
			if (err != nil) != tc.fails || (after > 0) != tc.waits {
				t.Errorf("looks again in %s, %v; want to wait %t, an error %t", after, err, tc.waits, tc.fails)
			}
			var requests []string
			for _, action := range client.Actions() {
				request := action.GetVerb()
				if action.GetSubresource() != "" {
					request += " " + action.GetSubresource()
				}
				requests = append(requests, request)
				if create, ok := action.(clienttesting.CreateAction); ok && action.GetSubresource() == "finalize" {
					finalizers := create.GetObject().(*corev1.Namespace).Spec.Finalizers
					if !slices.Equal(finalizers, []corev1.FinalizerName{"example.com/b"}) {
						t.Errorf("it is let go with the finalizers %q", finalizers)
					}
				}
			}
			if diff := cmp.Diff(tc.want, requests); diff != "" {
				t.Errorf("requests (-want,+got):\n%s", diff)
			}
		})
	}
}

func failing(verb, subresource string, err error) func(*kubernetesfake.Clientset, *Controller) {
	return func(client *kubernetesfake.Clientset, _ *Controller) {
		client.PrependReactor(verb, "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return action.GetSubresource() == subresource, nil, err
		})
	}
}

// queue records what is added.
type queue struct {
	workqueue.TypedRateLimitingInterface[string]
	added []string
}

func (q *queue) Add(name string) { q.added = append(q.added, name) }

func TestWhichNamespacesAreLookedAt(t *testing.T) {
	t.Parallel()
	ns := func(edit ...func(*corev1.Namespace)) *corev1.Namespace {
		out := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", Finalizers: []string{"example.com/a"}, DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}}
		out.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes, "example.com/b"}
		for _, f := range edit {
			f(out)
		}
		return out
	}
	live := func(ns *corev1.Namespace) { ns.DeletionTimestamp = nil }
	for name, tc := range map[string]struct {
		old, ns *corev1.Namespace
		want    bool
	}{
		"new, and live":              {nil, ns(live), false},
		"new, and being deleted":     {nil, ns(), true},
		"deleted":                    {ns(live), ns(), true},
		"given up by a finalizer":    {ns(), ns(func(ns *corev1.Namespace) { ns.Finalizers = nil }), true},
		"given up by one of its own": {ns(), ns(func(ns *corev1.Namespace) { ns.Spec.Finalizers = ns.Spec.Finalizers[:1] }), true},
		"its conditions changed":     {ns(), ns(func(ns *corev1.Namespace) { ns.ResourceVersion = "2" }), false},
		"replaced":                   {ns(), ns(func(ns *corev1.Namespace) { ns.UID = "2" }), true},
	} {
		c, q := &Controller{seen: map[types.UID]time.Time{}}, &queue{}
		c.enqueue(q, tc.old, tc.ns)
		if (len(q.added) > 0) != tc.want {
			t.Errorf("%s: looked at %t, want %t", name, !tc.want, tc.want)
		}
		if seen := len(c.seen) > 0; seen == (tc.ns.DeletionTimestamp == nil) {
			t.Errorf("%s: its deletion is seen: %t", name, seen)
		}
	}
}

func TestDefinitionsThatMayHaveObjectsInNamespaces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scope       apiextensionsv1.ResourceScope
		established apiextensionsv1.ConditionStatus
		want        bool
	}{
		"established":           {apiextensionsv1.NamespaceScoped, apiextensionsv1.ConditionTrue, true},
		"not established":       {apiextensionsv1.NamespaceScoped, apiextensionsv1.ConditionFalse, false},
		"outside of namespaces": {apiextensionsv1.ClusterScoped, apiextensionsv1.ConditionTrue, false},
		"neither, nor":          {apiextensionsv1.ClusterScoped, apiextensionsv1.ConditionFalse, false},
	} {
		definition := apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Scope: tc.scope}}
		definition.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: tc.established}}
		if got := mayHaveObjects(definition); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestThePreferredVersionIsFirstAndOnce(t *testing.T) {
	t.Parallel()
	version := func(name string) metav1.GroupVersionForDiscovery {
		return metav1.GroupVersionForDiscovery{GroupVersion: name}
	}
	group := &metav1.APIGroup{Versions: []metav1.GroupVersionForDiscovery{version("a/v1"), version("a/v2"), version("a/v3")}, PreferredVersion: version("a/v2")}
	if diff := cmp.Diff([]string{"a/v2", "a/v1", "a/v3"}, versions(group)); diff != "" {
		t.Errorf("versions (-want,+got):\n%s", diff)
	}
}
