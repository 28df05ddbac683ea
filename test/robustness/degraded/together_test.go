// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package degraded

import (
	"testing"

	"github.com/kube-annex/annex/server/standalone"
)

// TestBrokenParts are side by side on one server, which none of them may harm.
func TestBrokenParts(t *testing.T) {
	t.Parallel()
	a := start(t, func(o *standalone.Options) { o.ControlPlane.EventTTL = eventTTL })
	a.defineWidgets(t)
	for name, test := range map[string]func(*testing.T, *annex){
		"definitions":        brokenDefinitions,
		"conversion webhook": conversionWebhookIsGone,
		"events":             eventsOfWrongClocks,
		"credentials":        refusedCredentials,
		"webhooks":           brokenWebhooks,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}
