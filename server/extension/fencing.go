// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"net/http"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kube-annex/annex/server/fencing"
)

// applyFencing refuses late writes of leaders: exactly where the Leases are in the server's etcd, else after asking the host.
func (s *Server) applyFencing(config *genericapiserver.Config, host kubernetes.Interface) error {
	metrics, err := fencing.NewMetrics(legacyregistry.Register)
	if err != nil {
		return err
	}
	check := fencing.AskHost(host.CoordinationV1(), metrics)
	if s.options.SharesLeaseStorage {
		check = fencing.InTransaction(metrics)
	}
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, config *genericapiserver.Config) http.Handler {
		return build(fencing.WithTerms(api, config.Serializer, check), config)
	}
	return nil
}
