// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// The whole program runs, with the peers that take no kube-apiserver.
func TestShortRun(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "results.json")
	if err := run(t.Context(), settings{root: "../..", short: true, which: "^(etcd|annex up)", out: out, perSecond: 10}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var got results
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	for _, w := range append(works, work{name: workWatch}, work{name: workWatchBeside}) {
		for _, peer := range []string{peerUpDirect, peerUpThrough} {
			if samples := got.Rounds[w.name][peer]; len(samples) != 1 || samples[0].Operations == 0 {
				t.Errorf("%s of %s: %+v, want one round with operations", w.name, peer, samples)
			}
		}
	}
	if samples := got.Rounds[workCreate][peerEtcd]; len(samples) != 1 || samples[0].Operations == 0 {
		t.Errorf("%s of %s: %+v, want one round with operations", workCreate, peerEtcd, samples)
	}
}
