// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	componenttracing "k8s.io/component-base/tracing"
)

func TestTracingConfiguration(t *testing.T) {
	t.Parallel()
	const header = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
	for name, tc := range map[string]struct {
		content string
		want    []string
	}{
		"good":            {content: header + "samplingRatePerMillion: 100\nendpoint: localhost:4317\n"},
		"nothing said":    {content: header},
		"too many spans":  {header + "samplingRatePerMillion: 1000001\n", []string{"samplingRatePerMillion: Invalid value: 1000001"}},
		"no address":      {header + "endpoint: 'no address'\n", []string{"endpoint: Invalid value"}},
		"unknown field":   {header + "rate: 3\n", []string{`unknown field "rate"`}},
		"something else":  {"kind: Pod\napiVersion: v1\n", []string{`no kind "Pod"`}},
		"not even a file": {"", []string{"no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracing := Tracing{ConfigFile: filepath.Join(t.TempDir(), "tracing.yaml")}
			if tc.content != "" {
				if err := os.WriteFile(tracing.ConfigFile, []byte(tc.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			errs := tracing.Validate()
			if len(errs) != len(tc.want) {
				t.Fatalf("got %v, want %d errors", errs, len(tc.want))
			}
			for i, want := range tc.want {
				if got := errs[i].Error(); !strings.HasPrefix(got, "--tracing-config-file "+tracing.ConfigFile) || !strings.Contains(got, want) {
					t.Errorf("got %q, want the flag, the file and %q", got, want)
				}
			}
		})
	}
}

// unsent is a provider whose collector is away.
type unsent struct {
	componenttracing.TracerProvider
}

func (unsent) Shutdown(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestTracingDoesNotHoldUpStopping has a span left that the collector, which is away, will not take.
func TestTracingDoesNotHoldUpStopping(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	content := "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1000000\nendpoint: 127.0.0.1:1\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	config := genericapiserver.NewConfig(serializer.NewCodecFactory(runtime.NewScheme()))
	tracing := Tracing{ConfigFile: file}
	if err := tracing.ApplyTo(config); err != nil {
		t.Fatal(err)
	}
	_, span := config.TracerProvider.Tracer("test").Start(t.Context(), "test")
	span.End()
	if err := config.TracerProvider.Shutdown(t.Context()); err == nil {
		t.Error("the span was sent to nobody without an error")
	}
	provider, ok := config.TracerProvider.(prompt)
	if !ok {
		t.Fatalf("the provider is a %T, which waits for the collector", config.TracerProvider)
	}
	provider.TracerProvider = unsent{}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := provider.Shutdown(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != lastSpans {
			t.Errorf("stopping ended after %s with %v, want the end of its time after %s", time.Since(began), err, lastSpans)
		}
	})
}
