// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// TestMetricsCanBeDisabled runs a control plane alone, as its flags say.
func TestMetricsCanBeDisabled(t *testing.T) {
	t.Parallel()
	dir, address := t.TempDir(), freeURL(t)
	made, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := made.Authority("client-ca", "client-ca")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := authority.Client("admin", "admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	p := startAnnex(t, "controlplane", "--data-dir=data", "--bind-address=127.0.0.1", "--secure-port="+address.Port(), "--client-ca-file="+authority.CertFile(),
		"--disabled-metrics=apiserver_request_total")
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://" + address.Host, TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertFile: admin.CertFile, KeyFile: admin.KeyFile},
	})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		page, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err == nil && strings.Contains(string(page), "\napiserver_request_duration_seconds_count{") {
			if strings.Contains(string(page), "\napiserver_request_total{") {
				t.Error("a metric that is disabled is shown")
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no metrics of requests: %v\n%s", err, p.stderr.String())
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-p.ended:
			t.Fatalf("the control plane ended:\n%s", p.stderr.String())
		}
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code is %d; stderr:\n%s", code, p.stderr.String())
	}
}
