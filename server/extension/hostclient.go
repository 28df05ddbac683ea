// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// hostClient makes informers list before they watch. client-go's streaming list, when the host is away, sleeps for up to
// a minute without looking at its context (Reflector.watchList), and the end of the server would have to wait for that.
type hostClient struct {
	kubernetes.Interface
}

func newHostClient(config *rest.Config) (hostClient, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return hostClient{}, fmt.Errorf("make a client of the host: %w", err)
	}
	return hostClient{client}, nil
}

// IsWatchListSemanticsUnSupported is how informers find out.
func (hostClient) IsWatchListSemanticsUnSupported() bool { return true }
