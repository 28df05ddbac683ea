// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const page = "https://10.0.0.1:10259/metrics"
	for name, tc := range map[string]struct {
		args []string
		want []Endpoint
		// parse and valid are what the errors of parsing and of validating say.
		parse, valid string
	}{
		"none": {},
		"endpoints": {
			args: []string{"--observe-endpoint=kube-scheduler=" + page, "--observe-endpoint=a=https://[::1]:1/x/metrics,insecure", "--observe-endpoint=b=https://h/metrics,ca-file=" + file},
			want: []Endpoint{{Component: "kube-scheduler", URL: page}, {Component: "a", URL: "https://[::1]:1/x/metrics", Insecure: true}, {Component: "b", URL: "https://h/metrics", CAFile: file}},
		},
		"no component":     {args: []string{"--observe-endpoint=" + page}, parse: "give it as COMPONENT=https://HOST:PORT/metrics"},
		"unknown detail":   {args: []string{"--observe-endpoint=a=" + page + ",secure"}, parse: `"secure" is neither ca-file=FILE nor insecure`},
		"no file":          {args: []string{"--observe-endpoint=a=" + page + ",ca-file="}, parse: `"ca-file=" is neither`},
		"not a name":       {args: []string{"--observe-endpoint=A b=" + page}, valid: `the component "A b" a lowercase RFC 1123 label`},
		"not https":        {args: []string{"--observe-endpoint=a=http://h/metrics"}, valid: `"http://h/metrics" is not the address of a page with metrics; give it as https://`},
		"not a page":       {args: []string{"--observe-endpoint=a=https://h/healthz"}, valid: "is not the address of a page"},
		"twice":            {args: []string{"--observe-endpoint=a=" + page, "--observe-endpoint=a=" + page + ",insecure"}, valid: "is given twice; remove one"},
		"contradiction":    {args: []string{"--observe-endpoint=a=" + page + ",insecure,ca-file=" + file}, valid: ",ca-file and insecure contradict each other"},
		"missing file":     {args: []string{"--observe-endpoint=a=" + page + ",ca-file=" + file + "x"}, valid: ",ca-file: stat "},
		"interval":         {args: []string{"--observe-interval=10ms"}, valid: "--observe-interval is 10ms; set at least 1s"},
		"kubelets":         {args: []string{"--observe-kubelets", "--observe-kubelet-ca-file=" + file}},
		"kubelets not on":  {args: []string{"--observe-kubelet-insecure"}, valid: "do nothing without --observe-kubelets"},
		"kubelets, either": {args: []string{"--observe-kubelets", "--observe-kubelet-insecure", "--observe-kubelet-ca-file=" + file}, valid: "--observe-kubelet-ca-file and --observe-kubelet-insecure contradict"},
		"kubeconfig":       {args: []string{"--observe-kubeconfig=" + file + "x"}, valid: "--observe-kubeconfig: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := NewOptions()
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			options.AddFlags(flags)
			err := flags.Parse(tc.args)
			if tc.parse != "" {
				if err == nil || !strings.Contains(err.Error(), tc.parse) {
					t.Fatalf("parsing: %v, want %q", err, tc.parse)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			switch err := errors.Join(options.Validate()...); {
			case tc.valid == "" && err != nil:
				t.Fatal(err)
			case tc.valid != "" && (err == nil || !strings.Contains(err.Error(), tc.valid)):
				t.Fatalf("validating: %v, want %q", err, tc.valid)
			case tc.valid != "":
				return
			}
			if diff := cmp.Diff(tc.want, options.Endpoints); diff != "" {
				t.Errorf("endpoints (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestEndpointsAreVerified: an identity that trusts its own server blindly, or by a name, says nothing about others.
func TestEndpointsAreVerified(t *testing.T) {
	t.Parallel()
	server := newPages(t)
	server.set("/metrics", `kubernetes_feature_enabled{name="One",stage=""} 1`+"\n")
	for name, tc := range map[string]struct {
		identity rest.TLSClientConfig
		caFile   string
		insecure bool
		want     string
	}{
		"identity is insecure":              {identity: rest.TLSClientConfig{Insecure: true}, want: "certificate signed by unknown authority"},
		"identity knows another name":       {identity: rest.TLSClientConfig{CAFile: server.caFile, ServerName: "other"}},
		"identity knows the authority":      {identity: rest.TLSClientConfig{CAFile: server.caFile}},
		"endpoint has an authority":         {caFile: server.caFile},
		"endpoint has one in its own place": {identity: rest.TLSClientConfig{CAData: []byte("not a certificate")}, caFile: server.caFile},
		"insecure":                          {identity: rest.TLSClientConfig{CAFile: server.caFile}, insecure: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := clientFor(&rest.Config{BearerToken: "secret", TLSClientConfig: tc.identity}, tc.caFile, tc.insecure)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = readPage(t.Context(), client, server.url+"/metrics")
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
