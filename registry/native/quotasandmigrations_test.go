// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"

	"github.com/kube-annex/annex/registry/native/core"
	"github.com/kube-annex/annex/registry/native/internal/storagemigration"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

func TestResourceQuota(t *testing.T) {
	t.Parallel()
	resourcetest.Run(t, start(t, core.GroupVersion, core.Kinds(core.Tokens{})), resourcetest.Case{
		Resource: core.GroupVersion.WithResource("resourcequotas"), Kind: "ResourceQuota", Namespace: "default",
		Names:          []string{"quota-a", "quota-b", "quota-c"},
		Spec:           map[string]any{"hard": map[string]any{"configmaps": "10", "count/widgets.example.com": "5"}},
		ChangedSpec:    map[string]any{"hard": map[string]any{"configmaps": "20"}},
		Status:         map[string]any{"hard": map[string]any{"configmaps": "10"}, "used": map[string]any{"configmaps": "3"}},
		InvalidSpec:    map[string]any{"hard": map[string]any{"configmaps": "1500m"}},
		InvalidMessage: "must be an integer",
		Columns:        []string{"Name", "Request", "Limit", "Age"},
		ShortNames:     []string{"quota"},
		NoGenerations:  true, MetadataWithStatus: true,
	})
}

func TestStorageVersionMigration(t *testing.T) {
	t.Parallel()
	resourcetest.Run(t, start(t, storagemigration.GroupVersion, storagemigration.Kinds()), resourcetest.Case{
		Resource: storagemigration.GroupVersion.WithResource("storageversionmigrations"), Kind: "StorageVersionMigration",
		Names: []string{"migration-a", "migration-b", "migration-c"},
		Spec:  map[string]any{"resource": map[string]any{"group": "example.com", "resource": "widgets"}},
		Status: map[string]any{"resourceVersion": "17", "conditions": []any{map[string]any{
			"type": "Succeeded", "status": "True", "reason": "StorageVersionMigrationSucceeded", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
		}}},
		InvalidSpec:    map[string]any{"resource": map[string]any{"group": "example.com", "resource": "Widgets"}},
		InvalidMessage: "a DNS-1035 label",
		Columns:        []string{"Name", "Resource", "Status"},
		NoGenerations:  true,
	})
}
