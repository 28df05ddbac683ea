// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/kube-annex/annex/test/framework/sharedtests"
)

// TestServer runs `annex apiserver` behind the host, again and again. APIServices are one for the whole cluster, so nothing
// here runs in parallel but what shares a server.
func TestServer(t *testing.T) {
	unregisterAtEnd(t)
	t.Run("does what it does behind our own control plane", func(t *testing.T) {
		startAnnex(t)
		t.Run("typed client", func(t *testing.T) { sharedtests.TypedClient(t, root, host.Kubeconfig) })
		t.Run("kubectl", func(t *testing.T) { sharedtests.Kubectl(t, root, host.Kubeconfig) })
		t.Run("examples", func(t *testing.T) { sharedtests.Delete(t, host.Config, sharedtests.Examples(t, root, host.Config)) })
		t.Run("create only", func(t *testing.T) { sharedtests.CreateOnlyExamples(t, root, host.Config) })
	})
	t.Run("is part of its cluster", func(t *testing.T) {
		a := startAnnex(t)
		for name, test := range map[string]func(*testing.T, *annex){
			"RuntimeClass keeps its preferred version": runtimeClassKeepsItsVersion,
			"a deleted namespace takes its Features":   namespaceTakesItsFeatures,
			"what a NodeBalloon owns goes with it":     ownedGoesWithItsOwner,
			"rights are the cluster's":                 rightsAreTheClusters,
			"policies are the cluster's":               admissionIsTheClusters,
			"pods run on the hollow node":              podsRun,
			"clients speak protobuf":                   clientsSpeakProtobuf,
			"watches are complete and in order":        watchesAreComplete,
			"apply has owners":                         applyHasOwners,
			"a collection is deleted by label":         collectionIsDeletedByLabel,
			"a gated field follows its Feature":        gatedFieldFollowsItsFeature,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, a)
			})
		}
	})
	t.Run("outlives the leader of an external etcd", etcdLosesItsLeader)
	t.Run("outlives a restart of its host", hostIsRestarted)
	t.Run("waits for its host", hostIsAwayAtStart)
}
