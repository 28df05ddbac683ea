// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kube-annex/annex/test/framework"
)

// TestManager runs two replicas of a manager as an account that may do what it needs and no more. The leader is killed, and then the control plane.
func TestManager(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	annex, port := framework.Annex(t, root), "--secure-port="+freePort(t)
	server := framework.StartProcess(t, annex, dir, port)
	k := framework.NewKubectl(t, root, server.Kubeconfig())
	k.Want(t, `^serviceaccount/manager created`, "apply", "-k", "test/modules/manager/config")
	k.Run(t, "wait", "--for=condition=Established", "crd/sites.sites.example.com", "--timeout=60s")
	k.Run(t, "create", "namespace", "team")
	kubeconfig := accountKubeconfig(t, server.Config(t), k.Run(t, "create", "token", "manager", "-n", "sites-system"))

	first := startManager(t, kubeconfig)
	first.waitFor(t, "leading\n")
	second := startManager(t, kubeconfig)
	second.wantStatus(t, "http://"+second.health+"/readyz", "", http.StatusOK)
	applySites(t, k, "a", "b")
	checkSite(t, k, "a")
	checkSite(t, k, "b")
	checkMetrics(t, k, first)
	account := framework.NewKubectl(t, root, kubeconfig)
	account.WantError(t, `secrets is forbidden: User "system:serviceaccount:sites-system:manager" cannot list resource "secrets"`, "get", "secrets", "-n", "team")

	// The other replica takes over, and a third one is started in place of the first.
	first.kill(t)
	second.waitFor(t, "leading\n")
	third := startManager(t, kubeconfig)
	k.Want(t, `^1$`, "get", "lease", "sites", "-n", "sites-system", "-o", "jsonpath={.spec.leaseTransitions}")
	applySites(t, k, "c")
	checkSite(t, k, "c")
	k.Run(t, "delete", "configmap", "a", "-n", "team")
	k.Run(t, "wait", "--for=create", "configmap/a", "-n", "team", "--timeout=60s")
	k.Run(t, "delete", "site", "b", "-n", "team")
	k.Run(t, "wait", "--for=delete", "configmap/b", "-n", "team", "--timeout=60s")
	k.Want(t, `^\{"a":"2","c":"2"\}$`, "get", "configmap", "site-register", "-n", "team", "-o", "jsonpath={.data}")

	// The control plane dies with work begun, and comes back.
	k.Run(t, "delete", "site", "a", "-n", "team", "--cascade=foreground", "--wait=false")
	server.Kill()
	framework.StartProcess(t, annex, dir, port)
	k.Run(t, "wait", "--for=delete", "site/a", "configmap/a", "-n", "team", "--timeout=60s")
	applySites(t, k, "d")
	checkSite(t, k, "d")
	k.Want(t, `^\{"c":"2","d":"2"\}$`, "get", "configmap", "site-register", "-n", "team", "-o", "jsonpath={.data}")
	k.Run(t, "delete", "namespace", "team", "--timeout=60s")

	// Nothing was refused on the way: the account may do all that a manager does.
	for name, m := range map[string]*managerProcess{"first": first, "second": second, "third": third} {
		if said := m.String(); strings.Contains(said, "is forbidden: User") {
			t.Errorf("the %s manager was refused something:\n%s", name, said)
		}
	}
	third.end(t, syscall.SIGTERM)
	second.end(t, syscall.SIGTERM)
}

func applySites(t *testing.T, k *framework.Kubectl, names ...string) {
	t.Helper()
	var manifests strings.Builder
	for _, name := range names {
		manifests.WriteString("---\n{apiVersion: sites.example.com/v1, kind: Site, metadata: {name: " + name + ", namespace: team}, spec: {pages: {home: Welcome, about: Us}}}\n")
	}
	k.Run(t, "apply", "-f", written(t, manifests.String()))
}

// checkSite waits until a Site is ready, and looks at all that the manager makes of it.
func checkSite(t *testing.T, k *framework.Kubectl, name string) {
	t.Helper()
	k.Run(t, "wait", "--for=condition=Ready", "site/"+name, "-n", "team", "--timeout=60s")
	k.Want(t, `^`+name+`\s+2\s+True$`, "get", "site", name, "-n", "team")
	k.Want(t, `^Site `+name+` true Welcome$`, "get", "configmap", name, "-n", "team", "-o",
		`jsonpath={.metadata.ownerReferences[0].kind} {.metadata.ownerReferences[0].name} {.metadata.ownerReferences[0].controller} {.data.home}`)
	k.WantEventually(t, `Normal\s+Published\s+Site/`+name+`\s+2 pages`, "events", "-n", "team", "--for", "site/"+name)
}

// checkMetrics reads a manager's metrics, which asks the control plane who the reader is and whether that may get the path.
func checkMetrics(t *testing.T, k *framework.Kubectl, m *managerProcess) {
	t.Helper()
	url := "https://" + m.metrics + "/metrics"
	m.wantStatus(t, url, "", http.StatusUnauthorized)
	m.wantStatus(t, url, k.Run(t, "create", "token", "manager", "-n", "sites-system"), http.StatusForbidden)
	body := m.wantStatus(t, url, k.Run(t, "create", "token", "metrics-reader", "-n", "sites-system"), http.StatusOK)
	if want := `leader_election_master_status{name="sites"} 1`; !strings.Contains(body, want) {
		t.Errorf("the leader's metrics do not have %s", want)
	}
}
