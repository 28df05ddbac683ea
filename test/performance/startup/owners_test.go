// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"testing"
)

func TestSumOwners(t *testing.T) {
	t.Parallel()
	const profile = "heap profile: 3: 9000000 [4: 9000001] @ heap/8192\n" +
		"2: 4194304 [3: 4194305] @ 0x1 0x2\n#\t0x1\tk8s.io/kube-openapi/pkg/builder3.build+0x1\t\tfile.go:1\n#\t0x2\tmain.main+0x2\tfile.go:2\n\n" +
		"1: 1048576 [1: 1048576] @ 0x3\n#\t0x3\tgo.etcd.io/etcd/server/v3/storage/wal.newEncoder+0x1\t\tfile.go:1\n\n" +
		"1000: 16000 [1000: 16000] @ 0x4\n#\t0x4\tmain.small+0x1\tfile.go:3\n\n" +
		"0: 0 [7: 7] @ 0x5\n#\t0x5\tgo.etcd.io/bbolt.gone+0x1\tfile.go:4\n\n# runtime.MemStats\n# Alloc = 1\n"
	found, err := sumOwners([]byte(profile))
	if err != nil {
		t.Fatal(err)
	}
	// Objects of 16 bytes are noted with the probability 1 - e^(-16/4096).
	for owner, want := range map[string]float64{"OpenAPI": 4, "etcd": 1, "other": 16000.0 / (1 << 20) / (1 - math.Exp(-16.0/4096))} {
		if got := found[owner]; math.Abs(got-want) > 0.01*want {
			t.Errorf("%s has %f MiB, want %f", owner, got, want)
		}
	}
	if len(found) != 3 {
		t.Errorf("got %v", found)
	}
	if _, err := sumOwners([]byte("404 not found\n")); err == nil {
		t.Error("what is no profile is taken for one")
	}
}
