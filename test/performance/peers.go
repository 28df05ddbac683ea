// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
)

// The peers, as the tables name them.
const (
	peerEtcd               = "etcd"
	peerCRD                = "CRD"
	peerConfigMap          = "ConfigMap"
	peerSampleControlPlane = "sample control plane, CRD"
	peerSampleDirect       = "sample-apiserver, direct"
	peerSampleAggregated   = "sample-apiserver, aggregated"
	peerAnnexDirect        = "annex, direct"
	peerAnnexAggregated    = "annex, aggregated"
	peerUpDirect           = "annex up, direct"
	peerUpThrough          = "annex up, through its control plane"
)

// makers start peers, in the order of the tables.
var makers = []struct {
	name string
	make func(*servers, context.Context) (*peer, error)
}{
	{peerEtcd, (*servers).rawEtcd},
	{peerConfigMap, (*servers).configMap},
	{peerCRD, (*servers).customResource},
	{peerSampleControlPlane, (*servers).sampleControlPlane},
	{peerSampleDirect, (*servers).sampleDirect},
	{peerSampleAggregated, (*servers).sampleAggregated},
	{peerAnnexDirect, (*servers).annexDirect},
	{peerAnnexAggregated, (*servers).annexAggregated},
	{peerUpDirect, (*servers).upDirect},
	{peerUpThrough, (*servers).upThrough},
}

// peers starts those whose names match.
func (s *servers) peers(ctx context.Context, which *regexp.Regexp) ([]*peer, error) {
	var out []*peer
	for _, m := range makers {
		if !which.MatchString(m.name) {
			continue
		}
		say("starting %s", m.name)
		made, err := m.make(s, ctx)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", m.name, err)
		}
		made.name = m.name
		out = append(out, made)
	}
	if len(out) == 0 {
		return nil, errors.New("-peers matches none")
	}
	return out, nil
}

func (s *servers) rawEtcd(ctx context.Context) (*peer, error) {
	etcd, err := s.theEtcd(ctx)
	if err != nil {
		return nil, err
	}
	var clients []*kubernetes.Client
	for range s.settings.clients {
		client, err := kubernetes.New(clientv3.Config{Endpoints: strings.Split(etcd.Servers(), ","), Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		clients = append(clients, client)
		s.closing = append(s.closing, client)
	}
	p := &peer{store: "etcd", parts: []part{{roleEtcd, etcd.Member(0).Pid()}}}
	return p.overEtcd(s.settings, clients), nil
}

func (s *servers) configMap(ctx context.Context) (*peer, error) {
	return s.ofCluster(ctx, "ConfigMaps", configMaps)
}

func (s *servers) customResource(ctx context.Context) (*peer, error) {
	host, err := s.theCluster(ctx)
	if err != nil {
		return nil, err
	}
	if err := createCRD(ctx, host.Config); err != nil {
		return nil, err
	}
	return s.ofCluster(ctx, "CRD", customs)
}

// ofCluster is a peer that kube-apiserver serves by itself.
func (s *servers) ofCluster(ctx context.Context, store string, kind kind) (*peer, error) {
	host, err := s.theCluster(ctx)
	if err != nil {
		return nil, err
	}
	p := &peer{name: store, store: store, parts: []part{{roleServer, host.APIServer().Pid()}, {roleEtcd, host.Etcd().Member(0).Pid()}}}
	if p, err = p.overHTTP(s.settings, host.Config, kind); err != nil {
		return nil, err
	}
	return p, p.waitServed(ctx, host.APIServer())
}
