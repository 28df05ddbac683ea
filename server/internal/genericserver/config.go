// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package genericserver has what all servers set beyond their options.
package genericserver

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/server/version"
)

// maxRequestBodyBytes is the largest request body; its encoding for storage is smaller.
const maxRequestBodyBytes = 3 << 20

// DrainTimeout is the time until a stopping server closes connections. Requests are answered in any case; what is left are connections
// that a client has opened just before and not used.
const DrainTimeout = 3 * time.Second

// NewConfig returns the common configuration of all servers. The identity of the server is derived from its name ("annex-apiserver") and the
// listener's address: the default of the generic server is the same for all servers of a machine, kube-apiserver included.
//
// The gates are those of k8s.io/apiserver; nil means its DefaultFeatureGate. The library itself reads DefaultFeatureGate whatever it is given,
// for instance in registry stores and for tracing. Our code that must agree with it there reads the same: registry/storage and options.Tracing.
// All other packages get feature gates and metrics registries from cmd.
func NewConfig(name string, codecs serializer.CodecFactory, listener net.Listener, gates featuregate.FeatureGate) (*genericapiserver.RecommendedConfig, error) {
	identity, err := serverIdentity(name, listener.Addr().String())
	if err != nil {
		return nil, err
	}
	config := genericapiserver.NewRecommendedConfig(codecs)
	config.FeatureGate = gates
	if gates == nil {
		config.FeatureGate = utilfeature.DefaultFeatureGate
	}
	config.APIServerID = identity
	config.EffectiveVersion = version.NewEffective()
	config.MaxRequestBodyBytes = maxRequestBodyBytes
	config.RequestTimeout = time.Minute
	config.MinRequestTimeout = 1800
	config.EnableMetrics = true
	config.EnableProfiling = false // set by options.Features
	// A stopping server ends its watches, so that clients reconnect to another one and Run does not wait for them.
	config.ShutdownWatchTerminationGracePeriod = 2 * time.Second
	return config, nil
}

// Instance returns the identity of a server in logs and Leases: the host name and the address, which are the same after a restart.
func Instance(listener net.Listener) (string, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read the host name: %w", err)
	}
	address := listener.Addr().String()
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		address = strconv.Itoa(tcp.Port)
	}
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(hostname+"-"+address))
	return strings.Trim(plain, "-"), nil
}

func serverIdentity(name, address string) (string, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read the host name: %w", err)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{hostname, name, address}, "\x00")))
	return name + "-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])), nil
}
