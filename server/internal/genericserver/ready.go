// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package genericserver

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// readyInterval is short, since a start waits for it. It is cheap, since the loopback connection stays open.
const readyInterval = 10 * time.Millisecond

// WaitReady returns when /readyz answers the loopback client with 200, or when the context ends.
func WaitReady(ctx context.Context, loopback *rest.Config) error {
	client, err := rest.HTTPClientFor(loopback)
	if err != nil {
		return fmt.Errorf("build a client for /readyz: %w", err)
	}
	defer client.CloseIdleConnections()
	return wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, loopback.Host+"/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // not serving yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}
