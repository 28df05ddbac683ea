// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kube-annex/annex/test/framework/cluster"
)

const (
	// startTimeout is how long a server may take until it is ready.
	startTimeout = 2 * time.Minute
	// probeEvery is how often it is asked.
	probeEvery = 5 * time.Millisecond
)

// probe asks a server.
type probe struct {
	process *cluster.Process
	connect func() (*rest.Config, error)
	client  *http.Client
	host    string
}

// untilAvailable waits until the server is ready and has APIServices, so many remote ones among them at least, which are all available.
func (p *probe) untilAvailable(ctx context.Context, began time.Time, least int) (time.Duration, error) {
	var last error
	var took time.Duration
	err := wait.PollUntilContextTimeout(ctx, probeEvery, startTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.process.Done():
			return false, errors.New("it ended")
		default:
		}
		last = p.available(ctx, least)
		took = time.Since(began)
		return last == nil, nil
	})
	if err != nil {
		return 0, fmt.Errorf("wait until it is ready: %w, last seen: %w; the end of its log:\n%s", err, last, p.process.Tail(20))
	}
	return took, nil
}

func (p *probe) available(ctx context.Context, least int) error {
	if _, err := p.get(ctx, "/readyz"); err != nil {
		return err
	}
	body, err := p.get(ctx, "/apis/apiregistration.k8s.io/v1/apiservices")
	if err != nil {
		return err
	}
	list := apiregistrationv1.APIServiceList{}
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	remote := 0
	for _, service := range list.Items {
		if service.Spec.Service != nil {
			remote++
		}
		available := false
		for _, condition := range service.Status.Conditions {
			available = available || condition.Type == apiregistrationv1.Available && condition.Status == apiregistrationv1.ConditionTrue
		}
		if !available {
			return fmt.Errorf("the APIService %s is not available", service.Name)
		}
	}
	if len(list.Items) == 0 || remote < least {
		return fmt.Errorf("there are %d APIServices, of them %d of other servers", len(list.Items), remote)
	}
	return nil
}

func (p *probe) get(ctx context.Context, path string) ([]byte, error) {
	if p.client == nil {
		config, err := p.connect()
		if err != nil {
			return nil, err
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, err
		}
		p.client, p.host = client, config.Host
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.host+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s is answered with status %d", path, response.StatusCode)
	}
	return body, err
}

// metrics returns those without labels.
func (p *probe) metrics(ctx context.Context) (map[string]float64, error) {
	text, err := p.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	found := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if number, err := strconv.ParseFloat(value, 64); ok && err == nil {
			found[name] = number
		}
	}
	return found, nil
}

func (p *probe) close() {
	if p.client != nil {
		p.client.CloseIdleConnections()
	}
}
