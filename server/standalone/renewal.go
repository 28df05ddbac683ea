// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/internal/logonce"
	"github.com/kube-annex/annex/server/certificates/pki"
)

// renewalInterval is how often it is asked at most what is due, which also notices a clock that was set back.
const renewalInterval = time.Minute

// renewal keeps the certificates of the process, and what others have of them, good for as long as it runs.
type renewal struct {
	server  *Server
	made    *certificates
	clients []*client

	// unwritten and unregistered are what of a renewal has failed so far.
	unwritten, unregistered bool
	logged                  logonce.Error
}

// run renews what is due until the context ends.
func (r *renewal) run(ctx context.Context) error {
	lifetimes := r.server.options.Lifetimes
	ticker := lifetimes.Clock.NewTicker(min(lifetimes.Leaf/60, renewalInterval))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			if err := r.pass(ctx); r.logged.Changed(err) && err != nil {
				klog.FromContext(ctx).Error(err, "Certificates cannot be renewed; trying again, and going on with those that there are")
			}
		}
	}
}

// pass renews what is due. Servers show the new certificates at once, and clients from the next request on.
func (r *renewal) pass(ctx context.Context) error {
	renewed, authorities, err := r.made.renew()
	if len(renewed) > 0 {
		klog.FromContext(ctx).Info("Certificates have been renewed", "names", renewed)
	}
	if len(renewed) > 0 || authorities {
		r.unwritten = true
		for _, client := range r.clients {
			client.renewed()
		}
	}
	r.unregistered = r.unregistered || authorities
	if r.unwritten {
		if writeErr := r.writeKubeconfigs(); writeErr != nil {
			return errors.Join(err, writeErr)
		}
		r.unwritten = false
	}
	if r.unregistered && isClosed(r.server.ready) {
		if registerErr := register(ctx, r.server.AdminConfig(), r.made.servingCA.CertPEM()); registerErr != nil {
			return errors.Join(err, fmt.Errorf("tell the host of the renewed authority: %w", registerErr))
		}
		r.unregistered = false
	}
	return err
}

// writeKubeconfigs writes that of the administrator, and that of the extension apiserver for those who look for it there.
func (r *renewal) writeKubeconfigs() error {
	for path, client := range map[string]*credential{
		r.server.Kubeconfig():          r.made.admin,
		r.server.extensionKubeconfig(): r.made.extensionClient,
	} {
		if err := pki.WriteKubeconfig(path, r.server.hostURL, r.made.servingCA.CertFile(), client.files()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) extensionKubeconfig() string {
	return filepath.Join(s.options.dataDir, "pki", "extension.kubeconfig")
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
