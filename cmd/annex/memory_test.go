// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/test/performance/measure"
)

// Upper bounds of `annex up` at rest, in MiB, which have to hold for restFor. Without releaseMemory 72 MiB are anonymous. The kernel decides
// how much of the program's file is resident: 85 to 103 MiB were seen.
const (
	anonymousAtRest  = 66
	residentAtRest   = 180
	goroutinesAtRest = 2000
	restFor          = 5 * time.Second
)

var goroutinesLine = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

func TestMemoryAtRest(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		return // nowhere else is it known what is anonymous
	}
	dir := filepath.Join(t.TempDir(), "data")
	p := startAnnex(t, append([]string{"up", "--data-dir=" + dir}, ephemeral...)...)
	p.waitFor(t, &p.stdout, `(?m)^ready in `)
	p.staysSmall(t)
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := goroutinesLine.FindSubmatch(text)
	if found == nil {
		t.Fatal("the metrics do not tell how many goroutines there are")
	}
	if n, err := strconv.Atoi(string(found[1])); err != nil || n > goroutinesAtRest {
		t.Errorf("there are %s goroutines, want at most %d", found[1], goroutinesAtRest)
	}
}

// staysSmall returns once the process has kept within its bounds for some time.
func (p *process) staysSmall(t *testing.T) {
	t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for began, last := time.Now(), time.Now(); time.Since(last) < restFor; <-ticker.C {
		resident, anonymous, err := measure.Resident(p.command.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if anonymous > anonymousAtRest || resident > residentAtRest {
			last = time.Now()
		}
		if time.Since(began) > patience {
			t.Fatalf("%.0f MiB are resident, of which %.0f are anonymous; want at most %d and %d", resident, anonymous, residentAtRest, anonymousAtRest)
		}
	}
}
