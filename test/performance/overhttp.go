// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// overHTTP gives a peer its clients and all that can be asked of a Kubernetes API.
func (p *peer) overHTTP(s settings, config *rest.Config, kind kind) (*peer, error) {
	p.config, p.kind = config, kind
	for range s.clients {
		c, err := newClient(config)
		if err != nil {
			return nil, err
		}
		p.clients = append(p.clients, c)
	}
	var err error
	if p.admin, err = newClient(config); err != nil {
		return nil, err
	}
	var serial atomic.Int64
	p.operations = map[string]operation{
		opPreload: func(ctx context.Context, client, i int) error {
			_, err := p.clients[client].do(ctx, p.create(storedName(i)))
			return err
		},
		opCreate: func(ctx context.Context, client, i int) error {
			name := p.newName(int(serial.Add(1)))
			answer, err := p.clients[client].do(ctx, p.create(name))
			return p.note(i, name, answer, err)
		},
		opUpdate: func(ctx context.Context, client, i int) error {
			own := p.at(i)
			return p.write(ctx, client, own, request{
				method: http.MethodPut, contentType: jsonType, body: kind.object(own.name, own.revision, value("updated"+strconv.Itoa(i))),
			})
		},
		opMergePatch: func(ctx context.Context, client, i int) error {
			return p.write(ctx, client, p.at(i), request{method: http.MethodPatch, contentType: mergeType, body: kind.change(value("patched" + strconv.Itoa(i)))})
		},
		opApply: func(ctx context.Context, client, i int) error {
			own := p.at(i)
			return p.write(ctx, client, own, request{
				method: http.MethodPatch, path: "?fieldManager=bench&force=true", contentType: applyType,
				body: kind.object(own.name, "", value("applied"+strconv.Itoa(i))),
			})
		},
		opDelete: func(ctx context.Context, client, i int) error {
			_, err := p.clients[client].do(ctx, request{method: http.MethodDelete, path: kind.path + "/" + p.own[i].name})
			p.own[i].revision = ""
			return err
		},
		opGetCached: func(ctx context.Context, client, _ int) error {
			_, err := p.clients[client].do(ctx, request{method: http.MethodGet, path: kind.path + "/" + storedName(rand.IntN(s.stored)) + "?resourceVersion=0"})
			return err
		},
		opGetQuorum: func(ctx context.Context, client, _ int) error {
			_, err := p.clients[client].do(ctx, request{method: http.MethodGet, path: kind.path + "/" + storedName(rand.IntN(s.stored))})
			return err
		},
		opList:  func(ctx context.Context, client, _ int) error { return p.list(ctx, client, jsonType, s.stored) },
		opPages: func(ctx context.Context, client, _ int) error { return p.pages(ctx, client, s.stored) },
	}
	if kind.protobuf {
		p.operations[opListProtobuf] = func(ctx context.Context, client, _ int) error { return p.list(ctx, client, protobufType, s.stored) }
	}
	return p, nil
}

func (p *peer) create(name string) request {
	return request{
		method: http.MethodPost, path: p.kind.path, contentType: jsonType, body: p.kind.object(name, "", value("created")), want: http.StatusCreated,
	}
}

// note keeps what the i-th creation of a work has made.
func (p *peer) note(i int, name string, answer []byte, err error) error {
	if err != nil {
		return err
	}
	revision, err := revisionOf(answer)
	p.made[i] = object{name: name, revision: revision}
	return err
}

// at returns the object that the i-th operation of a work is about.
func (p *peer) at(i int) *object { return &p.own[i%len(p.own)] }

// write changes an object and keeps its new revision. The path of the request is what follows that of the object.
func (p *peer) write(ctx context.Context, client int, own *object, r request) error {
	r.path = p.kind.path + "/" + own.name + r.path
	answer, err := p.clients[client].do(ctx, r)
	if err != nil {
		return err
	}
	own.revision, err = revisionOf(answer)
	return err
}

func (p *peer) list(ctx context.Context, client int, accept string, stored int) error {
	length, err := p.clients[client].discard(ctx, request{method: http.MethodGet, path: p.kind.path, accept: accept})
	if err == nil && length < int64(stored)*valueSize {
		err = fmt.Errorf("a list of %s has %d bytes; that is less than its %d objects", p.name, length, stored)
	}
	return err
}

// pages reads a whole list 500 objects at a time, as kubectl does.
func (p *peer) pages(ctx context.Context, client, stored int) error {
	length, token := 0, ""
	for {
		page, err := p.clients[client].do(ctx, request{method: http.MethodGet, path: p.kind.path + "?limit=500&continue=" + url.QueryEscape(token)})
		if err != nil {
			return err
		}
		length += len(page)
		if token = continueToken(page); token != "" {
			continue
		}
		if length < stored*valueSize {
			return fmt.Errorf("all pages of %s have %d bytes; that is less than its %d objects", p.name, length, stored)
		}
		return nil
	}
}

// continueToken finds the token in the list's metadata, which comes before the items of some peers and after those of others.
func continueToken(page []byte) string {
	_, after, found := bytes.Cut(page, []byte(`"continue":"`))
	if !found {
		return ""
	}
	token, _, _ := bytes.Cut(after, []byte(`"`))
	return string(token)
}
