// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// testCluster answers as kube-apiserver does, as far as a registration asks. It has no flow schemas.
type testCluster struct {
	t *testing.T
	// onApply is called before an object is applied, dry runs aside. A status other than 0 is answered, and with stored the object is applied
	// nevertheless.
	onApply func(object string) (status int, stored bool)

	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured // by path
	uids    int
}

// newTestCluster returns a cluster and a client of it, whose user has all rights.
func newTestCluster(t *testing.T) (*testCluster, *Cluster) {
	t.Helper()
	c := &testCluster{t: t, objects: map[string]*unstructured.Unstructured{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	cluster, err := NewCluster(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c, cluster
}

// put stores an object as somebody else would, in the place of one that is there.
func (c *testCluster) put(location string, object *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uids++
	object.SetUID(types.UID(fmt.Sprint("uid-", c.uids)))
	object.SetName(path.Base(location))
	c.objects[location] = object
}

// has reports whether there is an object.
func (c *testCluster) has(location string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects[location] != nil
}

func (c *testCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" && c.onApply != nil {
		if status, stored := c.onApply(r.URL.Path); status != 0 {
			if stored {
				c.answer(r)
			}
			answerJSON(w, status, apierrors.NewGenericServerResponse(status, "patch", schema.GroupResource{}, path.Base(r.URL.Path), "not today", 0, false).Status())
			return
		}
	}
	status, body := c.answer(r)
	answerJSON(w, status, body)
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (c *testCluster) answer(r *http.Request) (int, any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	location := r.URL.Path
	current := c.objects[location]
	absent := apierrors.NewNotFound(schema.GroupResource{}, location).Status()
	switch {
	case strings.HasSuffix(location, "/selfsubjectaccessreviews"):
		return http.StatusCreated, authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		}
	case location == "/api":
		return http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case location == "/apis":
		return http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	case location == "/api/v1":
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1"}
		for _, name := range []string{"configmaps", "secrets", "serviceaccounts", "services"} {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Namespaced: true, Kind: name, Verbs: metav1.Verbs{"list", "create"}})
		}
		return http.StatusOK, list
	case r.Method == http.MethodPatch:
		return c.apply(r, current)
	case r.Method == http.MethodDelete && current != nil:
		var options metav1.DeleteOptions
		if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
			c.t.Error(err)
		}
		if wanted := options.Preconditions; wanted == nil || wanted.UID == nil {
			c.t.Errorf("%s is deleted whatever its uid is", location)
		} else if *wanted.UID != current.GetUID() {
			return http.StatusConflict, apierrors.NewConflict(schema.GroupResource{}, location, fmt.Errorf("the uid is %s", current.GetUID())).Status()
		}
		if len(options.DryRun) > 0 {
			return http.StatusOK, current
		}
		for other := range c.objects {
			if other == location || strings.HasPrefix(other, location+"/") {
				delete(c.objects, other)
			}
		}
		return http.StatusOK, current
	case r.Method == http.MethodGet && current != nil:
		return http.StatusOK, current
	case r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList"):
		list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}}
		for other, object := range c.objects {
			if path.Dir(other) == location {
				list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: object.GetName(), UID: object.GetUID()}})
			}
		}
		return http.StatusOK, list
	}
	return http.StatusNotFound, absent
}

func (c *testCluster) apply(r *http.Request, current *unstructured.Unstructured) (int, any) {
	query := r.URL.Query()
	if r.Header.Get("Content-Type") != "application/apply-patch+yaml" || query.Get("fieldManager") != "annex-register" || query.Get("force") != "true" {
		c.t.Errorf("%s is patched as %s with %s", r.URL.Path, r.Header.Get("Content-Type"), r.URL.RawQuery)
	}
	applied := &unstructured.Unstructured{}
	if err := json.NewDecoder(r.Body).Decode(&applied.Object); err != nil {
		c.t.Error(err)
	}
	if current != nil {
		return http.StatusOK, current
	}
	c.uids++
	applied.SetUID(types.UID(fmt.Sprint("uid-", c.uids)))
	if query.Get("dryRun") == "" {
		c.objects[r.URL.Path] = applied
	}
	return http.StatusCreated, applied
}
