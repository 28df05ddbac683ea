// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
)

// candidate returns what campaigns for the extension's controllers, as a client of the host.
func (s *Server) candidate(backend *etcd.Backend, made *certificates, hostURL string) (*leadership.Candidate, error) {
	host := &rest.Config{
		Host: hostURL, QPS: -1, UserAgent: rest.DefaultKubernetesUserAgent() + "/controllers",
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: made.servingCA.CertFile(), CertFile: made.controllers.CertFile, KeyFile: made.controllers.KeyFile,
		},
	}
	o := s.options.Leadership.Candidate(host, s.options.Gates)
	if o.Owner == "" {
		o.Owner = backend.Owner
	}
	o.BeforeExit = controlplane.StopStore(backend, s.beforeExit(backend))
	candidate, err := leadership.New(o, s.options.Controllers.List()...)
	if err != nil {
		return nil, fmt.Errorf("set up the controllers: %w", err)
	}
	return candidate, nil
}

// beforeExit tells the user that the process ends at once, although nobody stopped it, and what goes with it.
func (s *Server) beforeExit(backend *etcd.Backend) func(error) {
	return func(why error) {
		s.say("controllers: %v", why)
		if backend.Owner != "" {
			s.say("ending at once, and the embedded etcd with it; start again to go on")
		} else {
			s.say("ending at once; start again to go on")
		}
		if s.options.Leadership.BeforeExit != nil {
			s.options.Leadership.BeforeExit(why)
		}
	}
}
