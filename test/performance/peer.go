// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/performance/measure"
)

// The roles of processes that have a part in a peer's work.
const (
	roleServer = "server"
	roleHost   = "host"
	roleEtcd   = "etcd"
)

var roles = []string{roleServer, roleHost, roleEtcd}

// part is a process that has a part in the work.
type part struct {
	role string
	pid  int
}

// operation is one request of a client; i counts those of a work.
type operation func(ctx context.Context, client, i int) error

// peer is one way to store objects.
type peer struct {
	name  string
	parts []part
	// store is shared by peers that see the same objects.
	store string
	// operations are what the peer can do.
	operations map[string]operation
	// own are the objects that only this peer works on, and made those that a work creates.
	own  []object
	made []object

	// The rest is of those that speak HTTP. admin asks for profiles of the server.
	kind    kind
	config  *rest.Config
	clients []*client
	admin   *client
}

type object struct{ name, revision string }

// slug is the peer's name in names of objects and files.
func (p *peer) slug() string {
	return strings.Trim(strings.Join(strings.FieldsFunc(strings.ToLower(p.name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-"), "-")
}

func (p *peer) newName(serial int) string { return fmt.Sprintf("%s-%d.example.com", p.slug(), serial) }

// usage is what the parts of a peer have used, by role.
type usage map[string]float64

func (p *peer) cpu() (usage, error) {
	out := usage{}
	for _, part := range p.parts {
		seconds, err := measure.CPU(part.pid)
		if err != nil {
			return nil, err
		}
		out[part.role] += seconds
	}
	return out, nil
}

func (p *peer) resident() (usage, error) {
	out := usage{}
	for _, part := range p.parts {
		mib, _, err := measure.Resident(part.pid)
		if err != nil {
			return nil, err
		}
		out[part.role] += mib
	}
	return out, nil
}
