// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kube-annex/annex/test/framework/poll"
)

// Etcd is an etcd cluster on loopback, a process a member.
type Etcd struct {
	members []*Process
	urls    []string
	// start starts the process of a member.
	start []func() (*Process, error)
}

// StartEtcd starts a cluster of the etcd in bin, which keeps its data below dir, and waits until all members serve. Members get more
// flags where they are named.
func StartEtcd(ctx context.Context, bin, dir string, members int, more ...string) (*Etcd, error) {
	e := &Etcd{}
	peers, initial := make([]string, members), make([]string, members)
	for i := range members {
		client, err := freeURL()
		if err != nil {
			return nil, err
		}
		if peers[i], err = freeURL(); err != nil {
			return nil, err
		}
		e.urls = append(e.urls, client)
		initial[i] = memberName(i) + "=" + peers[i]
	}
	for i := range members {
		args := append([]string{
			"--name=" + memberName(i),
			"--data-dir=" + filepath.Join(dir, memberName(i)),
			"--listen-client-urls=" + e.urls[i],
			"--advertise-client-urls=" + e.urls[i],
			"--listen-peer-urls=" + peers[i],
			"--initial-advertise-peer-urls=" + peers[i],
			"--initial-cluster=" + strings.Join(initial, ","),
			"--log-level=warn",
			// The data is as short-lived as the test.
			"--unsafe-no-fsync",
		}, more...)
		e.start = append(e.start, func() (*Process, error) {
			return StartProcess(memberName(i), filepath.Join(dir, memberName(i)+".log"), filepath.Join(bin, "etcd"), args...)
		})
		member, err := e.start[i]()
		if err != nil {
			e.Stop()
			return nil, err
		}
		e.members = append(e.members, member)
	}
	for i := range members {
		if err := e.waitHealthy(ctx, i); err != nil {
			e.Stop()
			return nil, err
		}
	}
	return e, nil
}

func freeURL() (string, error) {
	port, err := FreePort()
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

func memberName(i int) string { return "etcd-" + strconv.Itoa(i) }

func (e *Etcd) waitHealthy(ctx context.Context, i int) error {
	client := &http.Client{Timeout: 2 * time.Second}
	return e.members[i].Await(ctx, startTimeout, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.urls[i]+"/health", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		return errors.Join(poll.Want(response.StatusCode == http.StatusOK, response.Status), response.Body.Close())
	})
}

// Servers is where clients reach the members, as --etcd-servers wants it.
func (e *Etcd) Servers() string { return strings.Join(e.urls, ",") }

// Leader returns which member leads.
func (e *Etcd) Leader(ctx context.Context) (int, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: e.urls, Context: ctx, Logger: zap.NewNop()})
	if err != nil {
		return 0, fmt.Errorf("find etcd's leader: %w", err)
	}
	defer func() { _ = client.Close() }()
	for i, url := range e.urls {
		status, err := client.Status(ctx, url)
		if err != nil {
			return 0, fmt.Errorf("find etcd's leader: %w", err)
		}
		if status.Leader == status.Header.MemberId {
			return i, nil
		}
	}
	return 0, errors.New("etcd has no leader")
}

// Member is one of the processes, for tests that take one away.
func (e *Etcd) Member(i int) *Process { return e.members[i] }

// Restart kills a member and starts it again with its data, and waits until it serves.
func (e *Etcd) Restart(ctx context.Context, i int) error {
	e.members[i].Kill()
	member, err := e.start[i]()
	if err != nil {
		return err
	}
	e.members[i] = member
	return e.waitHealthy(ctx, i)
}

// Stop ends all members and waits.
func (e *Etcd) Stop() {
	for _, member := range e.members {
		member.Kill()
	}
}
