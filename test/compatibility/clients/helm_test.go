// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework"
)

// helm runs Helm against a server.
type helm struct {
	binary, kubeconfig, home string
}

func newHelm(t *testing.T, kubeconfig string) helm {
	t.Helper()
	return helm{framework.Build(t, "helm", root, "helm.sh/helm/v4/cmd/helm", "-C=test/modules/helm"), kubeconfig, t.TempDir()}
}

func (h helm) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, h.binary, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+h.kubeconfig, "HOME="+h.home, "HELM_NAMESPACE=weather")
	out, err := command.CombinedOutput()
	return string(out), err
}

// want fails the test unless Helm succeeds and prints something that matches.
func (h helm) want(t *testing.T, pattern string, args ...string) {
	t.Helper()
	out, err := h.try(t, args...)
	if err != nil || !regexp.MustCompile(`(?m)`+pattern).MatchString(out) {
		t.Fatalf("helm %s: error %v, does not print %s:\n%s", strings.Join(args, " "), err, pattern, out)
	}
}

// release takes a chart through a release's life. It has a definition, hooks, and templates that look into the cluster.
func release(t *testing.T, k *framework.Kubectl, kubeconfig string) {
	t.Helper()
	h := newHelm(t, kubeconfig)
	stations := func() string {
		return k.Run(t, "get", "stations", "-n", "weather", "-o", `jsonpath={range .items[*]}{.metadata.name}={.spec.unit} {end}`)
	}
	wantStations := func(want string) {
		t.Helper()
		if got := stations(); got != want {
			t.Errorf("there are the stations %q, want %q", got, want)
		}
	}
	h.want(t, `^STATUS: deployed`, "install", "weather", "helmchart", "--create-namespace", "--wait", "--timeout=60s")
	wantStations("harbour=celsius hill=celsius ")
	k.Want(t, `^1 v1\.37\.\d+\S* yes$`, "get", "cm", "weather", "-n", "weather", "-o", "jsonpath={.data.revision} {.data.kubernetes} {.data.roles}")
	k.Want(t, `^1$`, "get", "cm", "weather-before", "-n", "weather", "-o", "jsonpath={.data.revision}")

	h.want(t, `^REVISION: 2`, "upgrade", "weather", "helmchart", "--set=unit=fahrenheit,stations={hill,tower}", "--wait", "--timeout=60s")
	wantStations("hill=fahrenheit tower=fahrenheit ")
	k.Want(t, `BEGIN CERTIFICATE`, "get", "cm", "weather", "-n", "weather", "-o", "jsonpath={.data.authority}")
	k.Want(t, `^2$`, "get", "cm", "weather-before", "-n", "weather", "-o", "jsonpath={.data.revision}")

	// The server refuses a value, and Helm goes back to what there was.
	out, err := h.try(t, "upgrade", "weather", "helmchart", "--set=unit=kelvin", "--rollback-on-failure", "--wait", "--timeout=60s")
	if err == nil || !strings.Contains(out, `Unsupported value: "kelvin"`) {
		t.Errorf("a value that is not allowed: error %v\n%s", err, out)
	}
	wantStations("hill=fahrenheit tower=fahrenheit ")

	h.want(t, `success`, "rollback", "weather", "1", "--wait", "--timeout=60s")
	wantStations("harbour=celsius hill=celsius ")
	h.want(t, `^1\s.*superseded(.|\n)*^2\s(.|\n)*^3\s.*failed(.|\n)*^5\s.*deployed\s.*Rollback to 1`, "history", "weather")
	k.Want(t, `^sh\.helm\.release\.v1\.weather\.v5\s+helm\.sh/release\.v1`, "get", "secrets", "-n", "weather")
	h.want(t, `uninstalled`, "uninstall", "weather", "--wait", "--timeout=60s")
	// A hook, the definition and the namespace are what Helm leaves to its user.
	k.Want(t, `^configmap/weather-before\s*$`, "get", "cm,secret,sa,role,rolebinding,stations", "-n", "weather", "-o", "name", "--field-selector=metadata.name!=kube-root-ca.crt,metadata.name!=default")
	k.Run(t, "delete", "namespace/weather", "crd/stations.weather.example.com")
}
