// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

// etcd is a cluster of members, a process each.
type etcd struct {
	*links
	members []*etcdMember
	client  *clientv3.Client
}

type etcdMember struct {
	disk
	name, url, log, binary string
	args                   []string
	current                *cluster.Process
}

// startEtcd returns when all members serve.
func startEtcd(t testing.TB, dir string, members int, flags ...string) *etcd {
	t.Helper()
	e := &etcd{links: &links{alone: map[int]bool{}, open: map[*link]bool{}}}
	var initial, urls []string
	for i := range members {
		name, listen := fmt.Sprintf("etcd-%d", i), loopback+":"+strconv.Itoa(freePort(t))
		peer := "http://" + e.listen(t, i, listen)
		m := &etcdMember{
			name: name, url: "http://" + loopback + ":" + strconv.Itoa(freePort(t)), log: filepath.Join(dir, name+".log"), binary: member(t),
			disk: disk{filepath.Join(dir, name+".disk")},
		}
		m.args = append([]string{
			"--name=" + name, "--data-dir=" + filepath.Join(dir, name), "--listen-client-urls=" + m.url, "--advertise-client-urls=" + m.url,
			"--listen-peer-urls=http://" + listen, "--initial-advertise-peer-urls=" + peer, "--log-level=warn",
		}, flags...)
		initial, urls = append(initial, name+"="+peer), append(urls, m.url)
		e.members = append(e.members, m)
	}
	for _, m := range e.members {
		m.args = append(m.args, "--initial-cluster="+strings.Join(initial, ","))
		m.start(t)
		t.Cleanup(m.kill)
	}
	e.client = dial(t, urls...)
	e.waitHealthy(t)
	listed, err := e.client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids = make([]string, members)
	for _, found := range listed.Members {
		for i, m := range e.members {
			if m.name == found.Name {
				e.ids[i] = strconv.FormatUint(found.ID, 16)
			}
		}
	}
	// Connections of which nobody knew whose they are begin anew.
	for carried := range e.open {
		_, _ = carried.ends[0].Close(), carried.ends[1].Close()
	}
	return e
}

// servers is the flag for those who use it.
func (e *etcd) servers() string {
	return "--etcd-servers=" + strings.Join(e.client.Endpoints(), ",")
}

func (m *etcdMember) start(t testing.TB) {
	t.Helper()
	var err error
	args := append([]string{troubleVariable + "=" + m.file, m.binary}, m.args...)
	if m.current, err = cluster.StartProcess(m.name, m.log, "env", args...); err != nil {
		t.Fatal(err)
	}
}

func (m *etcdMember) kill() { m.current.Kill() }

// waitHealthy waits until all members agree on a leader.
func (e *etcd) waitHealthy(t testing.TB) {
	t.Helper()
	poll.Eventually(t, startTimeout, "etcd's members do not agree on a leader", func(ctx context.Context) error {
		_, err := e.agree(ctx, -1)
		return err
	})
}

// leader is the member that all others but one, or all, know as such.
func (e *etcd) leader(t testing.TB, but int) (leader int) {
	t.Helper()
	poll.Eventually(t, startTimeout, "etcd has no leader", func(ctx context.Context) (err error) {
		leader, err = e.agree(ctx, but)
		return err
	})
	return leader
}

func (e *etcd) agree(ctx context.Context, but int) (int, error) {
	var id uint64
	at := -1
	for i, m := range e.members {
		if i == but {
			continue
		}
		status, err := e.client.Status(ctx, m.url)
		if err != nil {
			return -1, err
		}
		if status.Leader == 0 || id != 0 && status.Leader != id {
			return -1, errors.New("there is no leader that all agree on")
		}
		id = status.Leader
		if status.Header.MemberId == id {
			at = i
		}
	}
	if at < 0 {
		return -1, fmt.Errorf("the leader %x is the one that does not count", id)
	}
	return at, nil
}
