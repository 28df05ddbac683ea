// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kube-annex/annex/test/framework/poll"
)

// fieldManager is whose writes all of them are.
const fieldManager = "verdicts"

// settleTimeout is generous: a busy machine takes its time.
const settleTimeout = 30 * time.Second

// endpoint is where objects of a resource are.
type endpoint struct {
	group, version, resource string
	namespaced               bool
}

func (e endpoint) path(namespace string) string {
	path := "/apis/" + e.group + "/" + e.version
	if e.group == "" {
		path = "/api/" + e.version
	}
	if e.namespaced {
		path += "/namespaces/" + namespace
	}
	return path + "/" + e.resource
}

// player plays a case on one server.
type player struct {
	server     *server
	collection string
	first      object
	// last is the object of the last answer that had one.
	last    object
	answers []answer
}

// play returns the answer to each request in turn; after each that went well there is another one with the table.
func play(ctx context.Context, s *server, e endpoint, c testCase) ([]answer, error) {
	p := &player{server: s, collection: e.path(namespaceOf(c.Object)), first: c.Object}
	if err := p.create(ctx, len(c.Then) == 0); err != nil {
		return nil, err
	}
	if e.resource == "flowschemas" && len(c.Then) > 0 {
		if err := p.settle(ctx); err != nil {
			return nil, err
		}
	}
	for i, next := range c.Then {
		if err := p.step(ctx, fmt.Sprintf("step %d", i+1), next); err != nil {
			return nil, err
		}
	}
	if len(c.Then) > 0 {
		if err := p.remove(ctx, e); err != nil {
			return nil, err
		}
	}
	return p.answers, nil
}

func namespaceOf(o object) string {
	if named := o.metadata("namespace"); named != "" {
		return named
	}
	return namespace
}

func (p *player) name() string {
	if name := p.last.metadata("name"); name != "" {
		return name
	}
	return p.first.metadata("name")
}

func (p *player) path(subresource string) string {
	return strings.TrimSuffix(p.collection+"/"+url.PathEscape(p.name())+"/"+subresource, "/")
}

func (p *player) create(ctx context.Context, dryRun bool) error {
	body, err := json.Marshal(p.first)
	if err != nil {
		return err
	}
	r := request{method: http.MethodPost, path: p.collection, query: url.Values{"fieldManager": {fieldManager}}, body: body}
	if !dryRun {
		_, err = p.ask(ctx, "create", r)
		return err
	}
	r.query.Set("dryRun", "All")
	a, err := p.ask(ctx, "create (dry run)", r)
	if err != nil || a.code >= http.StatusBadRequest {
		return err
	}
	r.accept = asTable
	_, err = p.ask(ctx, "create (dry run) for a table", r)
	return err
}

// settle waits until the server's own controller has written its first status.
func (p *player) settle(ctx context.Context) error {
	return poll.Until(ctx, settleTimeout, func(ctx context.Context) error {
		a, err := p.server.ask(ctx, request{method: http.MethodGet, path: p.path("")})
		if err != nil {
			return poll.Permanent(err)
		}
		if a.code == http.StatusNotFound {
			return nil
		}
		p.last = a.object
		return poll.Want(len(objects(member(a.object, "status")["conditions"])) > 0, a.object)
	})
}

func (p *player) step(ctx context.Context, label string, s step) error {
	r := request{path: p.path(s.Subresource), query: url.Values{"fieldManager": {fieldManager}}}
	var content any
	switch {
	case s.Patch != nil:
		r.method, r.contentType, content = http.MethodPatch, mergePatch, s.Patch
		label += ": patch"
	case s.Strategic != nil:
		r.method, r.contentType, content = http.MethodPatch, strategicPatch, s.Strategic
		label += ": strategic merge patch"
	case s.JSON != nil:
		r.method, r.contentType, content = http.MethodPatch, jsonPatch, s.JSON
		label += ": JSON patch"
	case s.Put != nil:
		r.method, content = http.MethodPut, p.complete(s.Put, "name", "resourceVersion")
		label += ": put"
	case s.Apply != nil:
		r.method, r.contentType, content = http.MethodPatch, applyPatch, p.complete(s.Apply, "name")
		label += ": apply"
		if s.Force {
			r.query.Set("force", "true")
		}
	default:
		_, err := p.ask(ctx, label+": delete", request{method: http.MethodDelete, path: r.path})
		return err
	}
	if s.Subresource != "" {
		label += " " + s.Subresource
	}
	var err error
	if r.body, err = json.Marshal(content); err != nil {
		return err
	}
	a, err := p.askAgain(ctx, label, r, s)
	if err != nil || a.code >= http.StatusBadRequest {
		return err
	}
	_, err = p.ask(ctx, label+", then a table", request{method: http.MethodGet, path: p.path(""), accept: asTable})
	return err
}

// askAgain asks until a put meets the version that it was filled in with: a controller of the server may have written in between.
func (p *player) askAgain(ctx context.Context, label string, r request, s step) (answer, error) {
	const tries = 5
	for try := 1; ; try++ {
		a, err := p.ask(ctx, label, r)
		metadata, _ := s.Put["metadata"].(map[string]any)
		if _, given := metadata["resourceVersion"]; err != nil || s.Put == nil || given || a.code != http.StatusConflict || try == tries {
			return a, err
		}
		now, err := p.server.ask(ctx, request{method: http.MethodGet, path: p.path("")})
		if err != nil || now.code != http.StatusOK || object(now.object).metadata("resourceVersion") == p.last.metadata("resourceVersion") {
			return a, err
		}
		p.last, p.answers = now.object, p.answers[:len(p.answers)-1]
		if r.body, err = json.Marshal(p.complete(s.Put, "name", "resourceVersion")); err != nil {
			return a, err
		}
	}
}

// complete fills in what the request's object leaves out of apiVersion, kind and the given keys of the metadata.
func (p *player) complete(o object, keys ...string) object {
	o = maps.Clone(o)
	for _, key := range []string{"apiVersion", "kind"} {
		if _, given := o[key]; !given {
			o[key] = p.first[key]
		}
	}
	old, _ := o["metadata"].(map[string]any)
	metadata := map[string]any{}
	maps.Copy(metadata, old)
	for _, key := range keys {
		value := p.last.metadata(key)
		if key == "name" {
			value = p.name()
		}
		if _, given := metadata[key]; !given && value != "" {
			metadata[key] = value
		}
	}
	o["metadata"] = metadata
	return o
}

func (p *player) ask(ctx context.Context, label string, r request) (answer, error) {
	a, err := p.server.ask(ctx, r)
	if err != nil {
		return a, err
	}
	a.to = label
	if p.first.metadata("name") == "" {
		a.prefix = p.first.metadata("generateName")
	}
	p.answers = append(p.answers, a)
	if kind := a.object["kind"]; a.code < http.StatusBadRequest && kind != "Status" && kind != "Table" {
		p.last = a.object
	}
	return a, nil
}

// remove deletes the object, whatever holds it.
func (p *player) remove(ctx context.Context, e endpoint) error {
	if p.name() == "" {
		return nil
	}
	a, err := p.server.ask(ctx, request{method: http.MethodDelete, path: p.path("")})
	if err != nil || a.code >= http.StatusBadRequest {
		return err
	}
	if e.group == "" && e.resource == "namespaces" {
		body := []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + p.name() + `"}}`)
		if _, err := p.server.ask(ctx, request{method: http.MethodPut, path: p.path("finalize"), body: body}); err != nil {
			return err
		}
	}
	_, err = p.server.ask(ctx, request{method: http.MethodPatch, path: p.path(""), contentType: mergePatch, body: []byte(`{"metadata":{"finalizers":null}}`)})
	return err
}
