// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/kube-annex/annex/server/etcd"
)

// storage is where a server that runs alone keeps its objects: an external etcd or one embedded in a directory.
type storage struct {
	dataDir string
	etcd    *etcd.Options
}

func addStorage(fs *pflag.FlagSet) *storage {
	s := &storage{etcd: etcd.NewOptions()}
	fs.StringVar(&s.dataDir, "data-dir", "", "Directory for an etcd that runs inside this process. Either this or --etcd-servers is needed.")
	s.etcd.AddFlags(fs)
	return s
}

// complete reports every mistake, whichever of the two was chosen.
func (s *storage) complete() (etcd.CompletedOptions, error) {
	external := len(s.etcd.Servers) > 0
	switch {
	case external && s.dataDir != "":
		return etcd.CompletedOptions{}, errors.New("--etcd-servers and --data-dir are both set; choose one")
	case !external && s.dataDir == "":
		return etcd.CompletedOptions{}, errors.New("neither --etcd-servers nor --data-dir is set; choose one")
	}
	return s.etcd.Complete(s.dataDir)
}

// runOn starts the store, runs the server on it, and stops the store after the server. The server also ends when the store fails.
func runOn(ctx context.Context, completed etcd.CompletedOptions, run func(context.Context, *etcd.Backend) error) error {
	backend, err := completed.Start(ctx)
	if err != nil {
		return err
	}
	defer backend.Stop()
	serving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case failure := <-backend.Failed():
			stop(failure)
		case <-serving.Done():
		}
	}()
	err = run(serving, backend)
	if ctx.Err() == nil && context.Cause(serving) != nil {
		return context.Cause(serving)
	}
	return err
}
