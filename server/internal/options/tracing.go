// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/tracing"
	tracingapi "k8s.io/component-base/tracing/api/v1"
)

const (
	tracingFlag = "tracing-config-file"
	// lastSpans is how long the last ones may take.
	lastSpans = 2 * time.Second
)

// Tracing says where spans of requests, and of what is asked of others for them, are sent.
type Tracing struct {
	// ConfigFile holds a TracingConfiguration of apiserver.config.k8s.io. Without it there are no spans.
	ConfigFile string
}

// AddFlags adds --tracing-config-file.
func (t *Tracing) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&t.ConfigFile, tracingFlag, t.ConfigFile,
		"File with a TracingConfiguration of apiserver.config.k8s.io/v1: the OpenTelemetry collector that spans are sent to, and of how many requests.")
}

// Validate reports every mistake, those in the file included.
func (t *Tracing) Validate() []error {
	if t.ConfigFile == "" {
		return nil
	}
	configuration, err := genericoptions.ReadTracingConfiguration(t.ConfigFile)
	if err != nil {
		return []error{fmt.Errorf("--%s %s cannot be used: %w", tracingFlag, t.ConfigFile, err)}
	}
	var errs []error
	// ApplyTo of the library reads the same gates.
	for _, err := range tracingapi.ValidateTracingConfiguration(configuration, utilfeature.DefaultFeatureGate, nil) {
		errs = append(errs, fmt.Errorf("--%s %s: %w", tracingFlag, t.ConfigFile, err))
	}
	return errs
}

// ApplyTo has requests traced, and those of the loopback client, which has to be there before.
func (t *Tracing) ApplyTo(config *genericapiserver.Config) error {
	traced := &genericoptions.TracingOptions{ConfigFile: t.ConfigFile}
	if err := traced.ApplyTo(nil, config); err != nil {
		return fmt.Errorf("set up tracing by --%s: %w", tracingFlag, err)
	}
	if t.ConfigFile != "" {
		config.TracerProvider = prompt{config.TracerProvider}
	}
	return nil
}

// prompt loses the last spans rather than hold up a server that stops while the collector is away.
type prompt struct{ tracing.TracerProvider }

// Shutdown sends what is left, if that can be done soon.
func (p prompt) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lastSpans)
	defer cancel()
	return p.TracerProvider.Shutdown(ctx)
}
