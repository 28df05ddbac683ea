// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/controllers/leadership"
	features "github.com/kube-annex/annex/generated/clientset/versioned/typed/features/v1alpha1"
	"github.com/kube-annex/annex/internal/logonce"
	"github.com/kube-annex/annex/internal/workloop"
)

const (
	// kubeletRounds is how many rounds go by until kubelets are read again: there may be thousands.
	kubeletRounds = 10
	// retryShare is the part of an interval after which a round is repeated that found the host away.
	retryShare = 6

	// The first round writes each of some hundred Features twice, and shall not take minutes.
	clientQPS   = 200
	clientBurst = 400
)

// Controller keeps the Features of observed components.
type Controller struct {
	features features.FeatureInterface
	interval time.Duration
	clock    clock.Clock
	// host is the source that is behind the API, or nil if endpoints take its place.
	host     *source
	sources  []*source
	kubelets *kubelets
	clients  []*http.Client

	listing, writing logonce.Error
}

// New returns an observer. It starts nothing; the error lists every mistake.
func New(options Options) (*Controller, error) {
	if options.Host == nil {
		return nil, errors.New("make the observer: options have no Host")
	}
	if errs := options.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	c := &Controller{interval: cmp.Or(options.Interval, DefaultInterval), clock: options.Clock}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	if err := c.connect(&options); err != nil {
		return nil, fmt.Errorf("make the observer: %w", err)
	}
	return c, nil
}

func (c *Controller) connect(options *Options) error {
	config := rest.CopyConfig(options.Host)
	config.QPS, config.Burst, config.RateLimiter = clientQPS, clientBurst, nil
	config.Timeout = readTimeout
	hostClient, err := httpClientFor(config)
	if err != nil {
		return err
	}
	client, err := features.NewForConfigAndClient(config, hostClient)
	if err != nil {
		return err
	}
	c.features = client.Features(cmp.Or(options.Namespace, DefaultNamespace))
	c.clients = append(c.clients, hostClient)

	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(options.Endpoints, func(e Endpoint) bool { return e.Component == apiServer }) {
		c.host = &source{
			component: apiServer, reporter: metricsPath, implied: true, client: hostClient, url: base.JoinPath(metricsPath).String(),
			version: func(ctx context.Context) (string, error) {
				return hostVersion(ctx, hostClient, base.JoinPath("/version").String())
			},
		}
		c.sources = append(c.sources, c.host)
	}
	identity, err := options.identity()
	if err != nil {
		return err
	}
	var other *http.Client
	for _, endpoint := range options.Endpoints {
		if other, err = clientFor(identity, endpoint.CAFile, endpoint.Insecure); err != nil {
			return fmt.Errorf("client for %s: %w", endpoint.URL, err)
		}
		c.clients = append(c.clients, other)
		c.sources = append(c.sources, &source{component: endpoint.Component, reporter: endpoint.URL, client: other, url: endpoint.URL})
	}
	if !options.Kubelets {
		return nil
	}
	kubeletClient, err := clientFor(identity, options.KubeletCAFile, options.KubeletInsecure)
	if err != nil {
		return fmt.Errorf("client for kubelets: %w", err)
	}
	c.clients = append(c.clients, kubeletClient)
	nodes, err := corev1client.NewForConfigAndClient(config, hostClient)
	if err != nil {
		return err
	}
	c.kubelets = &kubelets{nodes: nodes, client: kubeletClient}
	return nil
}

// hostVersion asks the API for its version, since its metrics can be configured away one by one.
func hostVersion(ctx context.Context, client *http.Client, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.NewDecoder(response.Body).Decode(&info); err != nil {
		return "", fmt.Errorf("get %s: %s: %w", address, response.Status, err)
	}
	if info.GitVersion == "" {
		return "", fmt.Errorf("get %s: %s without gitVersion", address, response.Status)
	}
	return shorten(info.GitVersion, maxVersionLength), nil
}

// Run observes until the context ends, and returns when all of its work has ended.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("feature-observer"))
	defer func() {
		for _, client := range c.clients {
			utilnet.CloseIdleConnectionsFor(client.Transport)
		}
	}()
	var running sync.WaitGroup
	defer running.Wait()
	if c.kubelets != nil {
		// Apart from the rest: thousands of nodes, some of which are always away, take their time.
		leadership.Go(ctx, &running, func() {
			c.repeat(ctx, func(ctx context.Context) time.Duration {
				c.kubelets.read(ctx)
				return kubeletRounds * c.interval
			})
		})
	}
	c.repeat(ctx, func(ctx context.Context) time.Duration {
		if c.round(ctx) {
			return c.interval
		}
		return c.interval / retryShare
	})
	return nil
}

// repeat does work until the context ends, with the pause after each time that the work asks for.
func (c *Controller) repeat(ctx context.Context, work func(context.Context) time.Duration) {
	for ctx.Err() == nil {
		_ = workloop.Pause(ctx, c.clock, work(ctx))
	}
}

// round reads all pages and writes what has changed. It is to be repeated soon when the host was there before and is away now, or
// when something could not be written.
func (c *Controller) round(ctx context.Context) (done bool) {
	done = true
	var reading sync.WaitGroup
	for _, s := range c.sources {
		reading.Go(func() {
			if err := leadership.Call(ctx, s.read); err != nil && s == c.host && s.latest != nil {
				done = false
			}
		})
	}
	reading.Wait()
	var seen view
	for _, s := range c.sources {
		if s.latest == nil {
			seen.unread = append(seen.unread, unread{component: s.component})
			continue
		}
		seen.sightings = append(seen.sightings, sighting{component: s.component, reporter: s.reporter, page: s.latest})
	}
	if c.kubelets != nil {
		v := c.kubelets.view()
		seen.sightings = append(seen.sightings, v.sightings...)
		seen.unread = append(seen.unread, v.unread...)
	}
	return c.write(ctx, seen) && done
}
