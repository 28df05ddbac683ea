// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
)

// Labels of the goroutines of a term; goroutines inherit them from the one that starts them.
const (
	groupLabel  = "leadership_group"
	termLabel   = "leadership_term"
	runnerLabel = "leadership_runner"
	// callLabel marks a goroutine while it sends a request. Connections that are dialled for it outlive the term, since all
	// clients share them, so what has this label is not counted as left over.
	callLabel = "leadership_call"
)

// labelled runs f in a goroutine's labels.
func labelled(ctx context.Context, group, holder, runnable string, f func(context.Context)) {
	pprof.Do(ctx, pprof.Labels(groupLabel, group, termLabel, holder, runnerLabel, runnable), f)
}

// goroutines are those with equal stacks.
type goroutines struct {
	count int
	// labels is the line that has them.
	labels string
	// stack is as runtime/pprof prints it.
	stack string
}

// goroutinesOf lists the goroutines whose labels include those given and satisfy the filter.
func goroutinesOf(label, value string, filter func(labels string) bool) []goroutines {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return nil
	}
	_, blocks, _ := strings.Cut(profile.String(), "\n") // the first line has the total
	wanted := labelText(label, value)
	var out []goroutines
	for block := range strings.SplitSeq(blocks, "\n\n") {
		labels := labelsOf(block)
		if !strings.Contains(labels, wanted) || !filter(labels) {
			continue
		}
		found := goroutines{labels: labels, stack: block}
		if _, err := fmt.Sscanf(block, "%d @", &found.count); err != nil {
			continue
		}
		out = append(out, found)
	}
	return out
}

// labelsOf returns the line of the block that has the labels.
func labelsOf(block string) string {
	for line := range strings.SplitSeq(block, "\n") {
		if labels, ok := strings.CutPrefix(line, "# labels: "); ok {
			return labels
		}
	}
	return ""
}

// labelText is how the profile writes a label.
func labelText(label, value string) string { return fmt.Sprintf("%q:%q", label, value) }

// leftOver lists the goroutines of the group's terms other than the current one. After the first time, only those count whose term
// and runnable were found before: terms that have ended since need a moment.
func leftOver(group, current string, before []goroutines, first bool) []goroutines {
	return goroutinesOf(groupLabel, group, func(labels string) bool {
		if strings.Contains(labels, labelText(callLabel, "true")) || strings.Contains(labels, labelText(termLabel, current)) {
			return false
		}
		return first || slices.ContainsFunc(before, func(g goroutines) bool { return g.labels == labels })
	})
}

func total(found []goroutines) int {
	n := 0
	for _, g := range found {
		n += g.count
	}
	return n
}

func stacks(found []goroutines) string {
	all := make([]string, 0, len(found))
	for _, g := range found {
		all = append(all, g.stack)
	}
	return strings.Join(all, "\n\n")
}
