// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// fakeAPI serves the objects of one namespace without a network, with optimistic locking and watches. It is for bubbles of synctest.
type fakeAPI struct {
	mu sync.Mutex
	// objects has the objects by resource and name.
	objects map[string]*unstructured.Unstructured
	events  []apiEvent
	// changed is closed, and replaced, when there are new events.
	changed chan struct{}
}

type apiEvent struct {
	Type   watch.EventType            `json:"type"`
	Object *unstructured.Unstructured `json:"object"`

	key string
}

func newFakeAPI() *fakeAPI {
	return &fakeAPI{objects: map[string]*unstructured.Unstructured{}, changed: make(chan struct{})}
}

func (a *fakeAPI) config() *rest.Config {
	return &rest.Config{Host: "http://server.invalid", QPS: -1, Transport: a, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// RoundTrip implements http.RoundTripper.
func (a *fakeAPI) RoundTrip(request *http.Request) (*http.Response, error) {
	body := &bytes.Buffer{}
	if request.Body != nil {
		defer func() { _ = request.Body.Close() }()
		if _, err := body.ReadFrom(request.Body); err != nil {
			return nil, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, key, _ := strings.Cut(request.URL.Path, "/namespaces/default/")
	if query := request.URL.Query(); query.Has("watch") && !query.Has("sendInitialEvents") {
		return respond(request, http.StatusOK, a.watch(request, key)), nil
	}
	code := http.StatusOK
	answer, err := a.serve(request, key, body.Bytes())
	var refusal apierrors.APIStatus
	if errors.As(err, &refusal) {
		status := refusal.Status()
		answer, code = &status, int(status.Code)
	} else if err != nil {
		return nil, err
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return respond(request, code, io.NopCloser(bytes.NewReader(text))), nil
}

func respond(request *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: request,
	}
}

func (a *fakeAPI) serve(request *http.Request, key string, body []byte) (any, error) {
	resource, name, _ := strings.Cut(key, "/")
	group := schema.GroupResource{Resource: resource}
	switch {
	case request.URL.Query().Has("watch"):
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil) // informers use a list instead
	case request.Method == http.MethodGet && name == "":
		return a.list(request, resource)
	case request.Method == http.MethodPost:
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(body, object); err != nil {
			return nil, err
		}
		key = resource + "/" + object.GetName()
		if a.objects[key] != nil {
			return nil, apierrors.NewAlreadyExists(group, object.GetName())
		}
		object.SetUID(types.UID(fmt.Sprint("uid", len(a.events))))
		return a.store(watch.Added, key, object), nil
	}
	stored := a.objects[key]
	if stored == nil {
		return nil, apierrors.NewNotFound(group, name)
	}
	switch request.Method {
	case http.MethodGet:
		return stored, nil
	case http.MethodPut:
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(body, object); err != nil {
			return nil, err
		}
		if object.GetResourceVersion() != stored.GetResourceVersion() {
			return nil, apierrors.NewConflict(group, name, errors.New("it was changed"))
		}
		return a.store(watch.Modified, key, object), nil
	case http.MethodDelete:
		options := &metav1.DeleteOptions{}
		if err := json.Unmarshal(body, options); err != nil {
			return nil, err
		}
		if p := options.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != stored.GetResourceVersion() {
			return nil, apierrors.NewConflict(group, name, errors.New("it was changed"))
		}
		return a.store(watch.Deleted, key, stored.DeepCopy()), nil
	}
	return nil, apierrors.NewMethodNotSupported(group, request.Method)
}

// store writes or deletes the object.
func (a *fakeAPI) store(event watch.EventType, key string, object *unstructured.Unstructured) *unstructured.Unstructured {
	object.SetResourceVersion(strconv.Itoa(len(a.events) + 1))
	a.objects[key] = object
	if event == watch.Deleted {
		delete(a.objects, key)
	}
	a.events = append(a.events, apiEvent{Type: event, Object: object, key: key})
	close(a.changed)
	a.changed = make(chan struct{})
	return object
}

func (a *fakeAPI) list(request *http.Request, resource string) (any, error) {
	byLabel, err := labels.Parse(request.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(len(a.events))}}}
	for _, key := range slices.Sorted(maps.Keys(a.objects)) {
		if object := a.objects[key]; strings.HasPrefix(key, resource+"/") && selects(request, key) && byLabel.Matches(labels.Set(object.GetLabels())) {
			list.Items = append(list.Items, *object)
		}
	}
	return list.UnstructuredContent(), nil
}

// selects reports whether the request's field selector, which may have the name, selects an object.
func selects(request *http.Request, key string) bool {
	selector, err := fields.ParseSelector(request.URL.Query().Get("fieldSelector"))
	_, name, _ := strings.Cut(key, "/")
	return err == nil && selector.Matches(fields.Set{metav1.ObjectNameField: name})
}

// watch returns the body of a response that has the events since a version, or the objects that there are and the events from now on.
func (a *fakeAPI) watch(request *http.Request, resource string) *eventStream {
	ctx, stop := context.WithCancel(request.Context())
	s := &eventStream{api: a, ctx: ctx, stop: stop, next: len(a.events)}
	s.wants = func(key string) bool { return strings.HasPrefix(key, resource+"/") && selects(request, key) }
	if version, err := strconv.Atoi(request.URL.Query().Get("resourceVersion")); err == nil {
		s.next = version
		return s
	}
	for key, object := range a.objects {
		s.add(apiEvent{Type: watch.Added, Object: object, key: key})
	}
	return s
}

// eventStream is the body of a response to a watch.
type eventStream struct {
	api   *fakeAPI
	ctx   context.Context
	stop  context.CancelFunc
	wants func(key string) bool
	// next is the index of the first event that is not in text.
	next int
	text bytes.Buffer
}

func (s *eventStream) add(event apiEvent) {
	if s.wants(event.key) {
		_ = json.NewEncoder(&s.text).Encode(event)
	}
}

func (s *eventStream) Read(p []byte) (int, error) {
	for s.text.Len() == 0 {
		s.api.mu.Lock()
		events, changed := s.api.events[s.next:], s.api.changed
		s.api.mu.Unlock()
		s.next += len(events)
		for _, event := range events {
			s.add(event)
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
	return s.text.Read(p)
}

func (s *eventStream) Close() error {
	s.stop()
	return nil
}
