// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// readTimeout is how long a page may take.
const readTimeout = 10 * time.Second

// source is one page that is read again and again, in one goroutine at a time.
type source struct {
	component, reporter string
	// implied is set where nobody named the page: it is that of the API, whatever that is.
	implied bool
	client  *http.Client
	url     string
	// version asks elsewhere for what most pages tell; nil means nowhere.
	version func(context.Context) (string, error)

	// latest is nil until the page was read once.
	latest   *page
	problems []string
	failing  bool
}

// read reads the page. After an error the latest stays.
func (s *source) read(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("component", s.component, "url", s.url)
	read, problems, err := readPage(ctx, s.client, s.url)
	if err == nil && read.version == "" {
		if read.version, err = s.askVersion(ctx); err != nil {
			err = fmt.Errorf("find the component's version: %w", err)
		}
	}
	if err != nil {
		if ctx.Err() == nil && !s.failing {
			s.failing = true
			if s.implied && errors.Is(err, errNoFeatures) {
				// Nobody said that the API is that of a kube-apiserver.
				logger.Info("The API tells of no feature gates", "reason", err.Error())
			} else {
				logger.Error(err, "Cannot read a component's feature gates; what was known of them stays")
			}
		}
		return err
	}
	if s.failing {
		logger.Info("A component's feature gates can be read again")
	}
	if len(problems) > 0 && !slices.Equal(problems, s.problems) {
		logger.Info("Ignoring what a component says about some feature gates", "problems", problems)
	}
	logger.V(2).Info("Read a component's feature gates", "gates", len(read.gates), "version", read.version)
	s.latest, s.problems, s.failing = read, problems, false
	return nil
}

func (s *source) askVersion(ctx context.Context) (string, error) {
	if s.version == nil {
		return "", errors.New("the page has no metric " + buildMetric)
	}
	return s.version(ctx)
}

func readPage(ctx context.Context, client *http.Client, address string) (read *page, problems []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden:
		return nil, nil, fmt.Errorf("get %s: %s; grant the right to get it, or name an identity that has it with --observe-kubeconfig", address, response.Status)
	case response.StatusCode != http.StatusOK:
		beginning, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return nil, nil, fmt.Errorf("get %s: %s: %s", address, response.Status, strings.ToValidUTF8(strings.TrimSpace(string(beginning)), ""))
	}
	return parsePage(response.Body)
}

// clientFor makes a client that shows an identity to servers which the given authorities vouch for.
func clientFor(identity *rest.Config, caFile string, insecure bool) (*http.Client, error) {
	config := rest.CopyConfig(identity)
	config.Timeout = readTimeout
	// The host's address and how to get there are not those of other servers.
	config.Dial = nil
	config.ServerName = ""
	config.Insecure = insecure
	if insecure || caFile != "" {
		config.CAData, config.CAFile = nil, caFile
	}
	return httpClientFor(config)
}

func httpClientFor(config *rest.Config) (*http.Client, error) {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client := *shared
	// Nobody else gets to see the identity.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client, nil
}
