// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/kube-annex/annex/server/bodies"
)

// maxRequestBodyBytes is what a request may carry; encoded for storage it is smaller.
const maxRequestBodyBytes = 3 << 20

// DrainTimeout is how long connections get to end by themselves when a server stops. Requests under way are waited for in any
// case; what is left after this are connections that a client opened at the last moment and has not used.
const DrainTimeout = 3 * time.Second

// NewGenericConfig returns what the configurations of all Annex servers share. The name ("annex-apiserver") and the
// listener's address make the server's identity: the generic server's default would be the same for every server on a
// machine, a kube-apiserver included.
func NewGenericConfig(name string, codecs serializer.CodecFactory, listener net.Listener) (*genericapiserver.RecommendedConfig, error) {
	identity, err := serverIdentity(name, listener.Addr().String())
	if err != nil {
		return nil, err
	}
	config := genericapiserver.NewRecommendedConfig(codecs)
	config.APIServerID = identity
	config.EffectiveVersion = NewEffectiveVersion()
	config.MaxRequestBodyBytes = maxRequestBodyBytes
	config.RequestTimeout = time.Minute
	config.MinRequestTimeout = 1800
	config.EnableMetrics = true
	config.EnableProfiling = false // Features.ApplyTo turns it on
	chain := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, config *genericapiserver.Config) http.Handler {
		return chain(bodies.InFrontOf(inPieces(api), config.Serializer, config.MaxRequestBodyBytes), config)
	}
	// Watches are told to end when the server stops, so that their clients go elsewhere at once and Run need not wait for them.
	config.ShutdownWatchTerminationGracePeriod = 2 * time.Second
	return config, nil
}

// Instance is how people and Leases tell a server from others of its kind: by the host's name and where it listens, which are the same
// after a restart.
func Instance(listener net.Listener) (string, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("tell this process from others by the host name: %w", err)
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
		return "", fmt.Errorf("make the server's identity from the host name: %w", err)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{hostname, name, address}, "\x00")))
	return name + "-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])), nil
}
