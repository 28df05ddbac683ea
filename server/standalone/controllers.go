// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
)

// candidate returns what campaigns for the extension's controllers, as a client of the host.
func (s *Server) candidate(backend *etcd.Backend, host *client, gates *featuregate.Gate) (*leadership.Elector, error) {
	o := s.options.Leadership.ElectorOptions(controllersHost(host), gates)
	if o.Owner == "" {
		o.Owner = backend.StoreID
	}
	o.BeforeExit = controlplane.StopStore(backend, s.beforeExit(backend))
	groups := s.options.Controllers
	// Other servers than the host are reached with the same certificate, and client-go's way to follow its files.
	files, observing := host.credential.files(), *groups.Observer
	observing.Identity = &rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAFile: s.made.servingCA.CertFile(), CertFile: files.CertFile, KeyFile: files.KeyFile,
	}}
	groups.Observer = &observing
	groups.Hub = s.options.Extension.Hub
	candidate, err := leadership.New(o, groups.List()...)
	if err != nil {
		return nil, fmt.Errorf("set up the controllers: %w", err)
	}
	return candidate, nil
}

// controllersHost reaches the host as the controllers do.
func controllersHost(host *client) *rest.Config {
	config := host.config()
	config.UserAgent = rest.DefaultKubernetesUserAgent() + "/controllers"
	return config
}

// withIdentity runs the controllers and follows the identity of the cluster beside them.
func (s *Server) withIdentity(ctx context.Context, host *rest.Config, run func(context.Context) error) error {
	following, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	if identity := s.options.ClusterIdentity; identity != nil {
		work.Go(func() {
			if err := identity.Run(following, host); err != nil {
				klog.FromContext(ctx).Error(err, "The identity of the cluster is not followed")
			}
		})
	}
	return run(ctx)
}

// beforeExit tells the user that the process ends at once, although nobody stopped it, and what goes with it.
func (s *Server) beforeExit(backend *etcd.Backend) func(error) {
	return func(why error) {
		s.say("controllers: %v", why)
		if backend.StoreID != "" {
			s.say("ending at once, and the embedded etcd with it; start again to go on")
		} else {
			s.say("ending at once; start again to go on")
		}
		if s.options.Leadership.BeforeExit != nil {
			s.options.Leadership.BeforeExit(why)
		}
	}
}
