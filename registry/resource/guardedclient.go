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

// GuardClient returns an etcd client whose optimistic writes also compare the pins of the request's guard and its fence, and
// write the companion of the key. Writes that have none of these go through unchanged. kv must reach the same etcd as client.
func GuardClient(client kubernetes.Interface, kv clientv3.KV) kubernetes.Interface {
	return &guardedClient{Interface: client, kv: kv}
}

type guardedClient struct {
	kubernetes.Interface
	kv clientv3.KV
}

func (c *guardedClient) OptimisticPut(ctx context.Context, key string, value []byte, expected int64, opts kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	t := transaction{key: key, expected: expected, guarded: guardFrom(ctx).of(key), fence: fenceFrom(ctx)}
	if t.plain() {
		return c.Interface.OptimisticPut(ctx, key, value, expected, opts)
	}
	writes := []clientv3.Op{clientv3.OpPut(key, string(value), clientv3.WithLease(opts.LeaseID))}
	if companion := t.guarded.companion; companion != nil && companion.value != nil {
		writes = append(writes, keep(companion.key, *companion.value, opts.LeaseID))
	}
	result, err := c.commit(ctx, t, writes)
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
	t := transaction{key: key, expected: expected, guarded: guardFrom(ctx).of(key), fence: fenceFrom(ctx)}
	if t.plain() {
		return c.Interface.OptimisticDelete(ctx, key, expected, opts)
	}
	var writes []clientv3.Op
	if !t.guarded.waits {
		writes = append(writes, clientv3.OpDelete(key))
		if companion := t.guarded.companion; companion != nil {
			writes = append(writes, clientv3.OpDelete(companion.key))
		}
	}
	result, err := c.commit(ctx, t, writes)
	if err == nil && result.succeeded && t.guarded.waits {
		// The finalizers are those of the current object. Where they are those of an older one, the store continues with the current one.
		err = &pinBrokenError{own: key, other: key}
	}
	if err != nil {
		return kubernetes.DeleteResponse{}, err
	}
	response := kubernetes.DeleteResponse{Succeeded: result.succeeded, Revision: result.revision}
	if opts.GetOnFailure {
		response.KV = result.current
	}
	return response, nil
}

// keep makes a key hold a value, without a write where it does. So a companion that is not there yet, because its object was
// written by a version that knew none, is made up for with the next write of the object.
func keep(key, value string, lease clientv3.LeaseID) clientv3.Op {
	return clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.Value(key), "=", value)},
		nil,
		[]clientv3.Op{clientv3.OpPut(key, value, clientv3.WithLease(lease))},
	)
}

// transaction is one write with all it depends on.
type transaction struct {
	key      string
	expected int64
	guarded  guardedWrite
	fence    *Fence
}

func (t transaction) plain() bool {
	return len(t.guarded.pins) == 0 && t.guarded.companion == nil && !t.guarded.waits && t.fence == nil
}

// outcome is what a guarded transaction did; current is the object's own key where its revision was not the expected one.
type outcome struct {
	succeeded bool
	revision  int64
	current   *mvccpb.KeyValue
}

// commit writes if the fence holds and key and all pins are as expected. A key of its own that moved on is an ordinary
// failure, which callers answer by reading again. A broken fence or pin must not look like one: create would report
// AlreadyExists, and update and delete would try for ever with the same verdict. A broken fence is what the fence says, and
// final; it goes before the others, since no further attempt can succeed. A broken pin is a pinBrokenError.
func (c *guardedClient) commit(ctx context.Context, t transaction, writes []clientv3.Op) (outcome, error) {
	pins := t.guarded.pins
	compares := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(t.key), "=", t.expected)}
	reads := []clientv3.Op{clientv3.OpGet(t.key)}
	for _, p := range pins {
		compares = append(compares, clientv3.Compare(clientv3.ModRevision(p.key), "=", p.revision))
		reads = append(reads, clientv3.OpGet(p.key, clientv3.WithKeysOnly()))
	}
	if t.fence != nil {
		compares = append(compares, clientv3.Compare(clientv3.Value(t.fence.Key), "=", t.fence.Value))
		reads = append(reads, clientv3.OpGet(t.fence.Key))
	}
	response, err := c.kv.Txn(ctx).If(compares...).Then(writes...).Else(reads...).Commit()
	if err != nil {
		return outcome{}, err
	}
	if response.Succeeded {
		return outcome{succeeded: true, revision: response.Header.Revision}, nil
	}
	if len(response.Responses) != len(reads) {
		return outcome{}, fmt.Errorf("writing %s: etcd answered %d of %d reads", t.key, len(response.Responses), len(reads))
	}
	if t.fence != nil {
		if err := t.fence.verdict(response.Responses[len(reads)-1]); err != nil {
			return outcome{}, err
		}
	}
	if current, revision := found(response.Responses[0]); revision != t.expected {
		return outcome{revision: response.Header.Revision, current: current}, nil
	}
	for i, p := range pins {
		if _, revision := found(response.Responses[i+1]); revision != p.revision {
			return outcome{}, &pinBrokenError{own: t.key, other: p.key}
		}
	}
	return outcome{}, fmt.Errorf("writing %s: etcd refused the transaction although every comparison holds", t.key)
}

// verdict returns nil if what was read is what the fence asks for.
func (f *Fence) verdict(read *pb.ResponseOp) error {
	kv, _ := found(read)
	if kv == nil {
		return f.Refused(nil)
	}
	if current := string(kv.Value); current != f.Value {
		return f.Refused(&current)
	}
	return nil
}

func found(response *pb.ResponseOp) (*mvccpb.KeyValue, int64) {
	kvs := response.GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return nil, 0
	}
	return kvs[0], kvs[0].ModRevision
}
