// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package degraded

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/test/framework"
)

// root is the repository as seen from here.
const root = "../../.."

// expected is a warning or an error that the log may have, and why nothing can be done about it.
type expected struct {
	line *regexp.Regexp
	why  string
}

// always may be there at any time, and atStop when the server stops in order.
var (
	always = []expected{
		{
			regexp.MustCompile(`Skipping API (apiextensions|apiregistration)\.k8s\.io/v1beta1 because it has no resources\.$`),
			"the schemes of the libraries still have the versions whose kinds they no longer have; a kube-apiserver says the same",
		},
		{
			regexp.MustCompile(`"Failed to watch" err="failed to list \*v1\.PartialObjectMetadata: the server behind APIService \S+ is not available`),
			"discovery tells of a server's kinds a moment before its APIService is Available, and controllers of all kinds follow them at once; they try again",
		},
		{
			regexp.MustCompile(`logger="etcd".*(took too long|slow)`),
			"the disk of the machine has much else to do, and whoever runs it should know",
		},
	}
	atStop = []expected{
		{
			regexp.MustCompile(`reflector\.go:\d+\] "Failed to watch" .*(context canceled|connection refused|EOF|connection reset)`),
			"both servers and their clients stop: an informer may lose the server before it is told to stop itself, and client-go logs that as an error",
		},
		{
			regexp.MustCompile(`(context canceled|http: Handler timeout|"Post-timeout activity"|"Timeout or abort while handling")`),
			"a controller that is told to stop does not wait for the answer to its last request, which the server then cannot give",
		},
	}
)

// TestACleanStartLogsNoWarning runs the binary as its users do: for the first time, again, and after a SIGKILL.
func TestACleanStartLogsNoWarning(t *testing.T) {
	t.Parallel()
	binary, dir := framework.Annex(t, root), filepath.Join(t.TempDir(), "data")
	for _, run := range []struct {
		name string
		end  func(*framework.Process) error
		may  []expected
	}{
		{"the first start", func(p *framework.Process) error { return p.Interrupt() }, slices.Concat(always, atStop)},
		{"the second start", func(p *framework.Process) error { p.Kill(); return nil }, always},
		{"the start after SIGKILL", func(p *framework.Process) error { return p.Interrupt() }, slices.Concat(always, atStop)},
	} {
		p := framework.StartProcess(t, binary, dir)
		use(t, clientsFor(t, p.Config(t)))
		if err := run.end(p); err != nil {
			t.Errorf("%s: it ended with %v", run.name, err)
		}
		content, err := os.ReadFile(filepath.Join(dir, "annex.log"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if serious.MatchString(line) && !isExpected(strings.TrimSpace(line), run.may) {
				t.Errorf("%s: %s", run.name, line)
			}
		}
	}
}

// serious are lines of klog's that are not just for information.
var serious = regexp.MustCompile(`^[WEF]\d{4} `)

func isExpected(line string, may []expected) bool {
	for _, one := range may {
		if one.line.MatchString(line) {
			return true
		}
	}
	return false
}

// use does what users do, and waits until controllers lead.
func use(t *testing.T, c *clients) {
	t.Helper()
	leader(t, c)
	for _, path := range []string{"/apis", "/openapi/v2", "/openapi/v3", "/apis/features.k8s.io/v1alpha1", "/metrics"} {
		c.want(t, path, 200)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	// Clients that go in the middle of a watch are no trouble.
	watch, err := c.dynamic.Resource(claims).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.claim(t, "warnings.example.com"); err != nil {
		t.Fatal(err)
	}
	if err := sees(watch, "warnings.example.com"); err != nil {
		t.Error(err)
	}
	leave()
	wantControllers(t, &annex{t: t, clients: c}, "warnings")
	if err := c.annexKinds.MulticlusterV1alpha1().ClusterClaims().Delete(t.Context(), "warnings.example.com", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
