// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// auditPolicy has the cluster write down what the controllers ask it for, and who resizes pods.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: Metadata
    users: ["` + user + `"]
    resources:
      - {group: "", resources: [events, nodes, pods, pods/resize]}
      - {group: apps, resources: [daemonsets]}
      - {group: node.k8s.io, resources: [nodeballoons, nodeballoons/status]}
      - {group: scheduling.k8s.io, resources: [priorityclasses]}
  - level: None
`

// request is a line of the audit log.
type request struct {
	Verb      string
	ObjectRef struct{ Resource, Subresource, Name string }
	Received  time.Time `json:"requestReceivedTimestamp"`
}

func auditArgs() ([]string, error) {
	policy := filepath.Join(dir, "audit.yaml")
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog()}, os.WriteFile(policy, []byte(auditPolicy), 0o600)
}

func auditLog() string { return filepath.Join(dir, "audit.log") }

// requests returns what the controllers have asked for since then.
func requests(t *testing.T, since time.Time) []request {
	t.Helper()
	content, err := os.ReadFile(auditLog())
	if err != nil {
		t.Fatal(err)
	}
	var all []request
	for line := range bytes.Lines(content) {
		var r request
		if json.Unmarshal(line, &r) == nil && r.Received.After(since) { // The last line may be half written.
			all = append(all, r)
		}
	}
	return all
}

// resizes counts the attempts to resize a pod since then.
func resizes(t *testing.T, pod string, since time.Time) int {
	t.Helper()
	n := 0
	for _, r := range requests(t, since) {
		if r.ObjectRef.Resource == "pods" && r.ObjectRef.Subresource == "resize" && r.ObjectRef.Name == pod {
			n++
		}
	}
	return n
}
