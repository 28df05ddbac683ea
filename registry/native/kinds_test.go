// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/kube-annex/annex/generated/openapi"
	nativeopenapi "github.com/kube-annex/annex/generated/openapi/native"
	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/registry/native/coordination"
	"github.com/kube-annex/annex/registry/native/internal/flowcontrol"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

func TestMain(m *testing.M) { resourcetest.Main(m) }

func start(t *testing.T, version schema.GroupVersion, kinds []resource.Served) *resourcetest.Server {
	t.Helper()
	scheme := native.Kinds{}.NewScheme()
	return resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme), Version: version, Install: resource.Installer(kinds),
		Definitions: func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
			all := openapi.GetOpenAPIDefinitions(ref)
			maps.Copy(all, nativeopenapi.GetOpenAPIDefinitions(ref))
			return all
		},
	})
}

func TestLease(t *testing.T) {
	t.Parallel()
	resourcetest.Run(t, start(t, coordination.GroupVersion, coordination.Kinds()), resourcetest.Case{
		Resource: coordination.GroupVersion.WithResource("leases"), Kind: "Lease", Namespace: "default",
		Names:          []string{"lease-a", "lease-b", "lease-c"},
		Spec:           map[string]any{"holderIdentity": "one", "leaseDurationSeconds": int64(15)},
		ChangedSpec:    map[string]any{"holderIdentity": "other"},
		InvalidSpec:    map[string]any{"leaseDurationSeconds": int64(0)},
		InvalidMessage: "must be greater than 0",
		Columns:        []string{"Name", "Holder", "Age"},
		CreateOnUpdate: true,
	})
}

func TestFlowSchema(t *testing.T) {
	t.Parallel()
	level := map[string]any{"name": "workload-low"}
	resourcetest.Run(t, start(t, flowcontrol.GroupVersion, flowcontrol.Kinds()), resourcetest.Case{
		Resource: flowcontrol.GroupVersion.WithResource("flowschemas"), Kind: "FlowSchema",
		Names: []string{"schema-a", "schema-b", "schema-c"},
		Spec: map[string]any{
			"matchingPrecedence": int64(700), "priorityLevelConfiguration": level,
			"rules": []any{map[string]any{
				"subjects":      []any{map[string]any{"kind": "Group", "group": map[string]any{"name": "team"}}},
				"resourceRules": []any{map[string]any{"verbs": []any{"get"}, "apiGroups": []any{"*"}, "resources": []any{"*"}, "clusterScope": true}},
			}},
		},
		ChangedSpec:    map[string]any{"matchingPrecedence": int64(800), "priorityLevelConfiguration": level},
		Status:         map[string]any{"conditions": []any{map[string]any{"type": "Dangling", "status": "False"}}},
		InvalidSpec:    map[string]any{"matchingPrecedence": int64(1), "priorityLevelConfiguration": map[string]any{"name": "workload-low"}},
		InvalidMessage: "only the schema named 'exempt' may have matchingPrecedence 1",
		Columns:        []string{"Name", "PriorityLevel", "MatchingPrecedence", "DistinguisherMethod", "Age", "MissingPL"},
	})
}

func TestPriorityLevelConfiguration(t *testing.T) {
	t.Parallel()
	limited := func(handSize int64) map[string]any {
		return map[string]any{
			"type": "Limited", "limited": map[string]any{
				"nominalConcurrencyShares": int64(10), "lendablePercent": int64(0),
				"limitResponse": map[string]any{"type": "Queue", "queuing": map[string]any{"queues": int64(64), "handSize": handSize, "queueLengthLimit": int64(50)}},
			},
		}
	}
	resourcetest.Run(t, start(t, flowcontrol.GroupVersion, flowcontrol.Kinds()), resourcetest.Case{
		Resource: flowcontrol.GroupVersion.WithResource("prioritylevelconfigurations"), Kind: "PriorityLevelConfiguration",
		Names:          []string{"level-a", "level-b", "level-c"},
		Spec:           limited(6),
		ChangedSpec:    limited(7),
		Status:         map[string]any{"conditions": []any{map[string]any{"type": "x", "status": "True"}}},
		InvalidSpec:    limited(65),
		InvalidMessage: "handSize",
		Columns:        []string{"Name", "Type", "NominalConcurrencyShares", "Queues", "HandSize", "QueueLengthLimit", "Age"},
	})
}
