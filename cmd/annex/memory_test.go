// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/test/bench/measure"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		// allocated is how many MiB are allocated before each check.
		allocated []uint64
		want      []loadState
	}{
		"a start, and rest":           {[]uint64{40, 0, 0, 0, 0, 0, 0}, []loadState{starting, starting, working, working, working, working, resting}},
		"a start with little to do":   {[]uint64{9, 0, 0, 0}, []loadState{starting, starting, starting, resting}},
		"a start that goes on":        {[]uint64{40, 40, 40, 40}, []loadState{starting, starting, working, working}},
		"what is always to be done":   {[]uint64{0, 2, 2, 2, 2, 2, 2, 2, 2}, []loadState{starting, starting, resting, resting, resting, resting, resting, resting, resting}},
		"work, at once":               {[]uint64{0, 0, 0, 5, 0}, []loadState{starting, starting, resting, working, working}},
		"work that comes slowly":      {[]uint64{0, 0, 0, 3, 3, 3}, []loadState{starting, starting, resting, resting, resting, working}},
		"rest after work":             {[]uint64{0, 0, 0, 8, 0, 0, 0}, []loadState{starting, starting, resting, working, working, working, resting}},
		"work that pauses for a time": {[]uint64{0, 0, 0, 8, 0, 0, 8, 0}, []loadState{starting, starting, resting, working, working, working, working, working}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l load
			var got []loadState
			total := uint64(0)
			for _, more := range tc.allocated {
				total += more * mib
				got = append(got, l.next(total))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestWorkWakesAtOnce does not wait for a check when the server rests, and does when it works anyway.
func TestWorkWakesAtOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state loadState
		more  uint64
		want  bool
	}{
		"much at rest":    {resting, restBelow, true},
		"little at rest":  {resting, restBelow - 1, false},
		"much at work":    {working, 10 * restBelow, false},
		"much at a start": {starting, 10 * restBelow, false},
	} {
		l := load{state: tc.state, total: 1 << 30}
		if got := l.wakes(l.total + tc.more); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
		if got := l.next(l.total + tc.more); tc.want && got != working {
			t.Errorf("%s: the state is %d, want work", name, got)
		}
	}
}

// What `annex up` needs at most, in MiB, when it has nothing to do, and for how long it is looked at. The goals are 75 and 150; how much of the
// program's file is in memory is up to the kernel, and was 85 to 103 MiB in different hours.
const (
	anonymousAtRest  = 75
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
