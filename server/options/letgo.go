// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"net/http"
	"sync"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// letGo has a server that was told to stop ask for a new connection with each answer in the second half of the time for which it still
// serves. Who sends requests where has heard of it by then; but whoever decides that only when a connection is made would send them over
// one that stays open until they are refused. With HTTP/2 the answer is followed by GOAWAY, and what is under way on the connection goes on.
func letGo(config *genericapiserver.Config, delay time.Duration) {
	build := config.BuildHandlerChainFunc
	stopping := config.ShutdownInitiatedNotify()
	config.BuildHandlerChainFunc = func(api http.Handler, config *genericapiserver.Config) http.Handler {
		return lettingGo(build(api, config), stopping, delay)
	}
}

func lettingGo(chain http.Handler, stopping <-chan struct{}, delay time.Duration) http.Handler {
	since := sync.OnceValue(time.Now)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-stopping:
			if time.Since(since()) >= delay/2 {
				w.Header().Set("Connection", "close")
			}
		default:
		}
		chain.ServeHTTP(w, r)
	})
}
