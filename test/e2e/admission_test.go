// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/framework/sharedtests"
)

// admissionIsTheClusters: policies and webhooks of the cluster hold for Annex's kinds, although its kube-apiserver does not see them.
func admissionIsTheClusters(t *testing.T, a *annex) {
	direct := rest.CopyConfig(host.Config)
	direct.CAFile, direct.CAData, direct.Insecure = "", nil, true
	for _, arg := range a.args {
		if port, ok := strings.CutPrefix(arg, "--secure-port="); ok {
			direct.Host = "https://127.0.0.1:" + port
		}
	}
	sharedtests.Admission(t, host.Config, direct)
}
