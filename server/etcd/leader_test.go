// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

func TestRequestsGoToMembersThatHaveALeader(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		method  string
		answers []error
		want    error
		calls   int
		marked  bool
	}{
		"a write":                        {"/etcdserverpb.KV/Txn", []error{nil}, nil, 1, true},
		"a write that is refused twice":  {"/etcdserverpb.KV/Txn", []error{rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCNoLeader, nil}, nil, 3, true},
		"a write that may be done":       {"/etcdserverpb.KV/Txn", []error{broken, nil}, broken, 1, true},
		"a read, which the client makes": {"/etcdserverpb.KV/Range", []error{rpctypes.ErrGRPCNoLeader, nil}, rpctypes.ErrGRPCNoLeader, 1, true},
		"a question about a member":      {"/etcdserverpb.Maintenance/Status", []error{rpctypes.ErrGRPCNoLeader, nil}, rpctypes.ErrGRPCNoLeader, 1, false},
	} {
		calls, marked := 0, false
		err := throughLeader(t.Context(), tc.method, nil, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			sent, _ := metadata.FromOutgoingContext(ctx)
			marked = len(sent.Get(rpctypes.MetadataRequireLeaderKey)) == 1
			calls++
			return tc.answers[calls-1]
		})
		if !errors.Is(err, tc.want) || calls != tc.calls || marked != tc.marked {
			t.Errorf("%s: got %v after %d calls that want a leader: %t; want %v, %d, %t", name, err, calls, marked, tc.want, tc.calls, tc.marked)
		}
	}
}
