// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gates_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/server/featuregating/gates"
)

func TestGates(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags []string
		want  map[featuregate.Feature]bool
		err   []string
	}{
		"defaults": {
			want: map[featuregate.Feature]bool{"GracefulLeaderTransition": true, "FeatureCanary": false, "NodeBalloonReclaimPolicy": false},
		},
		"one of each": {
			flags: []string{"--feature-gates=GracefulLeaderTransition=false,FeatureCanary=true"},
			want:  map[featuregate.Feature]bool{"GracefulLeaderTransition": false, "FeatureCanary": true, "NodeBalloonReclaimPolicy": false},
		},
		"given twice": {
			flags: []string{"--feature-gates=FeatureCanary=true", "--feature-gates=NodeBalloonReclaimPolicy=true"},
			want:  map[featuregate.Feature]bool{"GracefulLeaderTransition": true, "FeatureCanary": true, "NodeBalloonReclaimPolicy": true},
		},
		"all alpha": {
			flags: []string{"--feature-gates=AllAlpha=true"},
			want:  map[featuregate.Feature]bool{"GracefulLeaderTransition": true, "FeatureCanary": true, "NodeBalloonReclaimPolicy": true},
		},
		"unknown": {
			flags: []string{"--feature-gates=Canary=true"},
			err:   []string{"--feature-gates", "unrecognized feature gate: Canary", "FeatureCanary", "GracefulLeaderTransition", "NodeBalloonReclaimPolicy"},
		},
		"of Kubernetes": {
			flags: []string{"--feature-gates=WatchList=true"},
			err:   []string{"unrecognized feature gate: WatchList"},
		},
		"no value":    {flags: []string{"--feature-gates=FeatureCanary"}, err: []string{"missing bool value for FeatureCanary", "NAME=true"}},
		"other value": {flags: []string{"--feature-gates=FeatureCanary=yes"}, err: []string{"FeatureCanary=yes", "NAME=true"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := gates.New()
			fs := pflag.NewFlagSet("annex", pflag.ContinueOnError)
			gates.AddFlag(fs, gate)
			err := fs.Parse(tc.flags)
			if (err != nil) != (tc.err != nil) {
				t.Fatalf("got error %v, want one about %q", err, tc.err)
			}
			for _, want := range tc.err {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if err != nil {
				return
			}
			got := map[featuregate.Feature]bool{}
			for feature := range tc.want {
				got[feature] = gate.Enabled(feature)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("gates (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestTwoSetsOfGatesShareNothing(t *testing.T) {
	t.Parallel()
	one, other := gates.New(), gates.New()
	if err := one.Set("FeatureCanary=true"); err != nil {
		t.Fatal(err)
	}
	if other.Enabled(gates.FeatureCanary) {
		t.Error("the second set has a gate on that was turned on in the first")
	}
}
