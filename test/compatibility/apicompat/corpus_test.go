// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestCorpus(t *testing.T) {
	t.Parallel()
	files, err := corpusFiles("corpus")
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string][]corpusFile{}
	for _, file := range files {
		groups[file.group] = append(groups[file.group], file)
	}
	counts := &counts{}
	t.Cleanup(func() { t.Log(counts.summary()) })
	for group, files := range groups {
		if group == "" {
			group = "core"
		}
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			for _, file := range files {
				t.Run(file.name, func(t *testing.T) {
					t.Parallel()
					runFile(t, file, counts)
				})
			}
		})
	}
}

func runFile(t *testing.T, file corpusFile, counts *counts) {
	cases, err := file.cases()
	if err != nil {
		t.Fatal(err)
	}
	e := endpointOf(t, file)
	turns := &turns{}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			defer turns.take(namespaceOf(c.Object) + "/" + c.Object.metadata("name"))()
			ofKube, ofAnnex := playBoth(t, e, c)
			counts.add(file, len(ofKube))
			if complaint := judge(c, ofKube, ofAnnex); complaint != "" {
				t.Error(complaint)
			}
		})
	}
}

// judge returns what is wrong with the answers, given what the case expects.
func judge(c testCase, ofKube, ofAnnex []answer) string {
	found := differences(ofKube, ofAnnex)
	if c.Differs == "" {
		return found
	}
	if found == "" {
		return "both servers answer the same, although the case says that ours differs: " + c.Differs
	}
	return ""
}

func playBoth(t *testing.T, e endpoint, c testCase) (ofKube, ofAnnex []answer) {
	t.Helper()
	var wg sync.WaitGroup
	var kubeErr, annexErr error
	wg.Go(func() { ofKube, kubeErr = play(t.Context(), kube, e, c) })
	wg.Go(func() { ofAnnex, annexErr = play(t.Context(), annex, e, c) })
	wg.Wait()
	for _, err := range []error{kubeErr, annexErr} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return ofKube, ofAnnex
}

// endpointOf asks kube-apiserver for what the file does not say.
func endpointOf(t *testing.T, file corpusFile) endpoint {
	t.Helper()
	e := endpoint{group: file.group, version: "v1", resource: file.resource}
	a := mustGet(t, kube, strings.TrimSuffix(e.path(""), "/"+e.resource))
	resource, known := named(a.object["resources"], "name")[e.resource]
	if !known {
		t.Fatalf("kube-apiserver has no %s in %q", e.resource, e.group)
	}
	e.namespaced, _ = resource["namespaced"].(bool)
	return e
}

// turns has those who want the same name wait for each other.
type turns struct {
	mu    sync.Mutex
	names map[string]*sync.Mutex
}

func (t *turns) take(name string) (release func()) {
	t.mu.Lock()
	if t.names == nil {
		t.names = map[string]*sync.Mutex{}
	}
	if t.names[name] == nil {
		t.names[name] = &sync.Mutex{}
	}
	turn := t.names[name]
	t.mu.Unlock()
	turn.Lock()
	return turn.Unlock
}

// counts are how many cases and answers were compared of each resource.
type counts struct {
	mu  sync.Mutex
	all map[string][2]int
}

func (c *counts) add(file corpusFile, answers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string][2]int{}
	}
	name := strings.TrimSuffix(file.resource+"."+file.group, ".")
	c.all[name] = [2]int{c.all[name][0] + 1, c.all[name][1] + answers}
}

func (c *counts) summary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for name, count := range c.all {
		lines = append(lines, fmt.Sprintf("%s: %d cases, %d answers", name, count[0], count[1]))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
