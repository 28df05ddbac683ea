// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/framework/poll"
)

// TestRequestsOfTheServerDoNotWaitBehindOthers asks kube-apiserver by which flow schema it has queued what the server asks of it.
func TestRequestsOfTheServerDoNotWaitBehindOthers(t *testing.T) {
	const namespace = "flow-schemas"
	flags := registrationFlags(t, namespace)
	const review = `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "somebody", "nonResourceAttributes": {"verb": "get", "path": "/"}}}`
	requests := []struct{ schema, method, path, body string }{
		{"annex-apiserver-reviews", http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review},
		{"annex-apiserver-leases", http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/annex-system/leases/a", ""},
		{"annex-apiserver", http.MethodGet, "/api/v1/namespaces", ""},
	}
	for who, more := range map[string][]string{
		user: {"--external-name=localhost", "--service-port=6444", "--user=" + user},
		"system:serviceaccount:" + namespace + ":annex-apiserver": nil,
	} {
		mustAnnex(t, with("register", flags, more...)...)
		config := rest.CopyConfig(host.Config)
		config.Impersonate.UserName = who
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			schema, err := host.Kubernetes.FlowcontrolV1().FlowSchemas().Get(t.Context(), r.schema, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			poll.Eventually(t, patience, who+"'s requests are queued by "+r.schema, func(ctx context.Context) error {
				request, err := http.NewRequestWithContext(ctx, r.method, host.Config.Host+r.path, strings.NewReader(r.body))
				if err != nil {
					return err
				}
				request.Header.Set("Content-Type", "application/json")
				response, err := client.Do(request)
				if err != nil {
					return err
				}
				if got := response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID); got != string(schema.UID) {
					return fmt.Errorf("%s %s (%s) was queued by the flow schema with the UID %s, want %s", r.method, r.path, response.Status, got, schema.UID)
				}
				return response.Body.Close()
			})
		}
	}
}
