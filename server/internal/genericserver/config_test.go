// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package genericserver

import (
	"net"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

func TestServersOnOneMachineHaveDifferentIdentities(t *testing.T) {
	t.Parallel()
	codecs := serializer.NewCodecFactory(runtime.NewScheme())
	seen := map[string]string{genericapiserver.NewConfig(codecs).APIServerID: "the generic server's default"}
	for _, server := range []struct{ name, address string }{
		{"annex-apiserver", "127.0.0.1:1"}, {"annex-apiserver", "127.0.0.1:2"}, {"annex-controlplane", "127.0.0.1:1"},
	} {
		identity, err := serverIdentity(server.name, server.address)
		if err != nil {
			t.Fatal(err)
		}
		if other, found := seen[identity]; found {
			t.Errorf("%v has the identity of %s", server, other)
		}
		seen[identity] = server.name + " at " + server.address
		if again, err := serverIdentity(server.name, server.address); err != nil || again != identity {
			t.Errorf("identity changed from %s to %s (%v)", identity, again, err)
		}
	}
}

// TestInstancesDiffer between servers, and not between the runs of one.
func TestInstancesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, address := range []string{"127.0.0.1:0", "127.0.0.1:0", "[::1]:0", "0.0.0.0:0"} {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		first, err := Instance(listener)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Instance(listener); err != nil || again != first {
			t.Errorf("%s is %s, and then %s (%v)", listener.Addr(), first, again, err)
		}
		if other, ok := seen[first]; ok {
			t.Errorf("%s and %s are both %s", listener.Addr(), other, first)
		}
		seen[first] = listener.Addr().String()
		for _, problem := range validation.IsDNS1123Subdomain(first) {
			t.Errorf("%s cannot be part of the name of a Lease: %s", first, problem)
		}
	}
}
