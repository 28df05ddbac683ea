// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/internal/genericserver"
)

func TestTakenPortNamesTheFlag(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	port := taken.Addr().(*net.TCPAddr).Port
	for name, tc := range map[string]struct {
		prefix, flag, want string
	}{
		"plain":     {"", "", "--secure-port"},
		"prefixed":  {"extension-", "", "--extension-secure-port"},
		"own name":  {"extension-", "extension-port", "--extension-port"},
		"ephemeral": {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serving := NewServing(tc.prefix, net.IPv4(127, 0, 0, 1), port)
			if tc.flag != "" {
				serving.PortFlag = tc.flag
			}
			if tc.want == "" {
				serving.Port = 0
			}
			listener, err := serving.Listen(t.Context())
			if tc.want == "" {
				if err != nil {
					t.Fatalf("a free port was not found: %v", err)
				}
				if err := listener.Close(); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := tc.want + " " + strconv.Itoa(port) + ": address already in use; choose another port with " + tc.want
			if err == nil || err.Error() != want {
				t.Errorf("error is %v, want %s", err, want)
			}
		})
	}
}

func TestEveryMistakeIsReportedWithItsFix(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	garbled := filepath.Join(dir, "garbled.crt")
	if err := os.WriteFile(garbled, []byte("-----BEGIN CERTIFICATE-----\nMIIB"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.crt")
	authority := authorityIn(t, filepath.Join(dir, "pki"))
	for name, tc := range map[string]struct {
		validate func() []error
		want     []string // one a mistake
	}{
		"defaults": {validate: func() []error {
			serving, features, authentication, authorization, audit := NewServing("", net.IPv4zero, 1), NewFeatures(), NewAuthentication(), NewAuthorization(), NewAudit()
			return join(serving.Validate(), features.Validate(), authentication.Validate(), authorization.Validate(), audit.Validate())
		}},
		"zero values": {validate: func() []error {
			return join((&Audit{}).Validate(), (&RequestHeader{}).Validate(), (&Authorization{}).Validate())
		}},
		"port and TLS version": {
			validate: func() []error {
				serving := NewServing("x-", net.IPv4zero, 70000)
				serving.MinTLSVersion = "VersionTLS99"
				serving.HTTP2MaxStreams = -1
				return serving.Validate()
			},
			want: []string{"--x-secure-port 70000 is not a port; choose", "--x-tls-min-version", "--x-http2-max-streams-per-connection -1 is negative; give"},
		},
		"certificate without key": {
			validate: func() []error {
				serving := NewServing("", net.IPv4zero, 1)
				serving.CertFile = missing
				return serving.Validate()
			},
			want: []string{"--tls-cert-file is set but --tls-private-key-file is not; set both or neither"},
		},
		"missing certificate and key": {
			validate: func() []error {
				serving := NewServing("", net.IPv4zero, 1)
				serving.CertFile, serving.KeyFile = missing, missing
				return serving.Validate()
			},
			want: []string{"--tls-cert-file cannot be read", "--tls-private-key-file cannot be read"},
		},
		"garbled certificate": {
			validate: func() []error {
				serving := NewServing("", net.IPv4zero, 1)
				serving.CertFile, serving.KeyFile = garbled, garbled
				return serving.Validate()
			},
			want: []string{"--tls-cert-file " + garbled},
		},
		"garbled authorities": {
			validate: func() []error {
				authentication := NewAuthentication()
				authentication.ClientCAFile = garbled
				authentication.RequestHeader.ClientCAFile = garbled
				authentication.RequestHeader.AllowedNames = []string{"proxy"}
				return authentication.Validate()
			},
			want: []string{"--requestheader-client-ca-file " + garbled, "--client-ca-file " + garbled},
		},
		"any front proxy": {
			validate: func() []error {
				header := NewRequestHeader()
				header.ClientCAFile = authority.CertFile()
				return header.Validate()
			},
			want: []string{"--requestheader-allowed-names is empty"},
		},
		"any front proxy on purpose": {validate: func() []error {
			header := NewRequestHeader()
			header.ClientCAFile = authority.CertFile()
			header.AllowAnyName = true
			return header.Validate()
		}},
		"blank header": {
			validate: func() []error {
				header := NewRequestHeader()
				header.UsernameHeaders = []string{" "}
				return header.Validate()
			},
			want: []string{"--requestheader-username-headers has an empty value; remove it"},
		},
		"limits": {
			validate: func() []error {
				features := NewFeatures()
				features.Profiling, features.ContentionProfiling = false, true
				features.MaxRequestsInFlight, features.MaxMutatingRequestsInFlight = 0, 0
				return features.Validate()
			},
			want: []string{"--contention-profiling has no effect without --profiling", "--enable-priority-and-fairness needs something to share"},
		},
		"lifetimes of answers": {
			validate: func() []error {
				return (&Authorization{AllowTTL: -1, DenyTTL: -1, AlwaysAllowPaths: []string{"/a*b"}}).Validate()
			},
			want: []string{"--authorization-webhook-cache-authorized-ttl", "--authorization-webhook-cache-unauthorized-ttl", "--authorization-always-allow-paths"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := tc.validate()
			if len(errs) != len(tc.want) {
				t.Fatalf("%d mistakes were reported, want %d: %v", len(errs), len(tc.want), errs)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(errs[i].Error(), want) {
					t.Errorf("mistake %d is %q, want it to begin with %q", i, errs[i], want)
				}
			}
		})
	}
}

func TestKubeconfigThatCannotBeUsedIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := authorityIn(t, filepath.Join(dir, "pki"))
	pair, err := authority.Client("admin", "admin")
	if err != nil {
		t.Fatal(err)
	}
	complete := filepath.Join(dir, "complete")
	if err := pki.WriteKubeconfig(complete, "https://127.0.0.1:1", authority.CertFile(), pair); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(complete)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&Host{Kubeconfig: complete}).ClientConfig(); err != nil {
		t.Fatalf("a complete kubeconfig was refused: %v", err)
	}
	for name, half := range map[string][]byte{
		"empty":                  nil,
		"garbled":                []byte("{{{"),
		"cut in the certificate": content[:len(content)/5],
		"cut in the middle":      content[:len(content)/2],
		"cut at the end":         content[:len(content)-len(content)/6],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(path, half, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := (&Host{Kubeconfig: path}).ClientConfig()
			if err == nil || !strings.Contains(err.Error(), "--kubeconfig "+path) {
				t.Errorf("error is %v, want it to name the flag and the file", err)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		_, err := (&Host{Kubeconfig: filepath.Join(dir, "missing")}).ClientConfig()
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error is %v, want it to say that the file does not exist", err)
		}
	})
}

func TestLoopbackClientNeedsNoOtherCertificate(t *testing.T) {
	t.Parallel()
	serving := NewServing("", net.IPv4(127, 0, 0, 1), 0)
	listener, err := serving.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	config, err := genericserver.NewConfig("test", serializer.NewCodecFactory(runtime.NewScheme()), listener, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := serving.ApplyTo(&config.Config, listener); err != nil {
		t.Fatal(err)
	}
	if _, err := rest.TLSConfigFor(config.LoopbackClientConfig); err != nil {
		t.Error(err)
	}
	if config.LoopbackClientConfig.BearerToken == "" {
		t.Error("loopback client has no token")
	}
	if got := config.EffectiveVersion.Info(); got.Major != "1" || !strings.HasPrefix(got.GitVersion, "v1.") {
		t.Errorf("version is %s.%s %s, want a Kubernetes version", got.Major, got.Minor, got.GitVersion)
	}
}

func authorityIn(t *testing.T, dir string) *pki.Authority {
	t.Helper()
	directory, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := directory.Authority("ca", "test")
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func join(lists ...[]error) []error {
	var all []error
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}
