// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

const rawPrefix = "/bench/objects/"

// overEtcd gives a peer the requests that an apiserver sends to etcd for its own, with values of the same size.
func (p *peer) overEtcd(s settings, clients []*kubernetes.Client) *peer {
	var serial atomic.Int64
	put := func(ctx context.Context, client int, name, text string, revision int64) (int64, error) {
		answer, err := clients[client].Kubernetes.OptimisticPut(ctx, rawPrefix+name, []byte(value(text)+padding[:300]), revision, kubernetes.PutOptions{GetOnFailure: revision != 0})
		if err == nil && !answer.Succeeded {
			err = fmt.Errorf("put %s at revision %d: it is not there", name, revision)
		}
		return answer.Revision, err
	}
	p.operations = map[string]operation{
		opPreload: func(ctx context.Context, client, i int) error {
			_, err := put(ctx, client, storedName(i), "created", 0)
			return err
		},
		opCreate: func(ctx context.Context, client, i int) error {
			name := p.newName(int(serial.Add(1)))
			revision, err := put(ctx, client, name, "created", 0)
			p.made[i] = object{name: name, revision: strconv.FormatInt(revision, 10)}
			return err
		},
		opUpdate: func(ctx context.Context, client, i int) error {
			own := p.at(i)
			revision, err := strconv.ParseInt(own.revision, 10, 64)
			if err == nil {
				revision, err = put(ctx, client, own.name, "updated"+strconv.Itoa(i), revision)
			}
			own.revision = strconv.FormatInt(revision, 10)
			return err
		},
		opDelete: func(ctx context.Context, client, i int) error {
			revision, err := strconv.ParseInt(p.own[i].revision, 10, 64)
			if err != nil {
				return err
			}
			answer, err := clients[client].Kubernetes.OptimisticDelete(ctx, rawPrefix+p.own[i].name, revision, kubernetes.DeleteOptions{GetOnFailure: true})
			if err == nil && !answer.Succeeded {
				err = fmt.Errorf("delete %s at revision %d: it is not there", p.own[i].name, revision)
			}
			p.own[i].revision = ""
			return err
		},
		opGetQuorum: func(ctx context.Context, client, _ int) error {
			answer, err := clients[client].Kubernetes.Get(ctx, rawPrefix+storedName(rand.IntN(s.stored)), kubernetes.GetOptions{})
			if err == nil && answer.KV == nil {
				err = fmt.Errorf("get from etcd: it is not there")
			}
			return err
		},
		opList: func(ctx context.Context, client, _ int) error {
			answer, err := clients[client].KV.Get(ctx, rawPrefix, clientv3.WithPrefix())
			if err == nil && len(answer.Kvs) < s.stored {
				err = fmt.Errorf("list from etcd: %d objects, want at least %d", len(answer.Kvs), s.stored)
			}
			return err
		},
	}
	return p
}
