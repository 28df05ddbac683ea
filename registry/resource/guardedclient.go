// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

// GuardClient returns an etcd client whose optimistic writes also compare the pins of the request's guard. Writes without
// pins go through unchanged. kv must reach the same etcd as client.
func GuardClient(client kubernetes.Interface, kv clientv3.KV) kubernetes.Interface {
	return &guardedClient{Interface: client, kv: kv}
}

type guardedClient struct {
	kubernetes.Interface
	kv clientv3.KV
}

func (c *guardedClient) OptimisticPut(ctx context.Context, key string, value []byte, expected int64, opts kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	pins := guardFrom(ctx).pinsOf(key)
	if len(pins) == 0 {
		return c.Interface.OptimisticPut(ctx, key, value, expected, opts)
	}
	result, err := c.commit(ctx, key, expected, pins, clientv3.OpPut(key, string(value), clientv3.WithLease(opts.LeaseID)))
	if err != nil {
		return kubernetes.PutResponse{}, err
	}
	response := kubernetes.PutResponse{Succeeded: result.succeeded, Revision: result.revision}
	if opts.GetOnFailure {
		response.KV = result.current
	}
	return response, nil
}

func (c *guardedClient) OptimisticDelete(ctx context.Context, key string, expected int64, opts kubernetes.DeleteOptions) (kubernetes.DeleteResponse, error) {
	pins := guardFrom(ctx).pinsOf(key)
	if len(pins) == 0 {
		return c.Interface.OptimisticDelete(ctx, key, expected, opts)
	}
	result, err := c.commit(ctx, key, expected, pins, clientv3.OpDelete(key))
	if err != nil {
		return kubernetes.DeleteResponse{}, err
	}
	response := kubernetes.DeleteResponse{Succeeded: result.succeeded, Revision: result.revision}
	if opts.GetOnFailure {
		response.KV = result.current
	}
	return response, nil
}

// outcome is what a guarded transaction did; current is the object's own key where its revision was not the expected one.
type outcome struct {
	succeeded bool
	revision  int64
	current   *mvccpb.KeyValue
}

// commit writes if key and all pins are as expected. A key of its own that moved on is an ordinary failure, which callers
// answer by reading again. A broken pin must not look like one: create would report AlreadyExists, and update and delete
// would try for ever with the same verdict. It is a pinBrokenError instead.
func (c *guardedClient) commit(ctx context.Context, key string, expected int64, pins []pin, write clientv3.Op) (outcome, error) {
	compares := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", expected)}
	reads := []clientv3.Op{clientv3.OpGet(key)}
	for _, p := range pins {
		compares = append(compares, clientv3.Compare(clientv3.ModRevision(p.key), "=", p.revision))
		reads = append(reads, clientv3.OpGet(p.key, clientv3.WithKeysOnly()))
	}
	response, err := c.kv.Txn(ctx).If(compares...).Then(write).Else(reads...).Commit()
	if err != nil {
		return outcome{}, err
	}
	if response.Succeeded {
		return outcome{succeeded: true, revision: response.Header.Revision}, nil
	}
	if len(response.Responses) != len(reads) {
		return outcome{}, fmt.Errorf("writing %s: etcd answered %d of %d reads", key, len(response.Responses), len(reads))
	}
	if current, revision := found(response.Responses[0]); revision != expected {
		return outcome{revision: response.Header.Revision, current: current}, nil
	}
	for i, p := range pins {
		if _, revision := found(response.Responses[i+1]); revision != p.revision {
			return outcome{}, &pinBrokenError{own: key, other: p.key}
		}
	}
	return outcome{}, fmt.Errorf("writing %s: etcd refused the transaction although every comparison holds", key)
}

func found(response *pb.ResponseOp) (*mvccpb.KeyValue, int64) {
	kvs := response.GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return nil, 0
	}
	return kvs[0], kvs[0].ModRevision
}
