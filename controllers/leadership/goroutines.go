// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
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

// goroutinesWith lists the goroutines of the process whose labels satisfy the filter, one sample for each stack and set of labels.
func goroutinesWith(filter func(sample *profile.Sample) bool) []*profile.Sample {
	var content bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&content, 0); err != nil {
		return nil
	}
	all, err := profile.ParseData(content.Bytes())
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all.Sample, func(sample *profile.Sample) bool { return !filter(sample) })
}

// leftOver lists the goroutines of the group's terms other than the current one. After the first time, only those count whose term
// and runnable were found before: terms that have ended since need a moment.
func leftOver(group, current string, before []*profile.Sample, first bool) []*profile.Sample {
	return goroutinesWith(func(sample *profile.Sample) bool {
		if !sample.HasLabel(groupLabel, group) || sample.HasLabel(callLabel, "true") || sample.HasLabel(termLabel, current) {
			return false
		}
		return first || slices.ContainsFunc(before, func(b *profile.Sample) bool { return maps.EqualFunc(b.Label, sample.Label, slices.Equal) })
	})
}

func total(samples []*profile.Sample) (n int64) {
	for _, sample := range samples {
		n += sample.Value[0]
	}
	return n
}

// stacks formats the samples for the log, with function, file and line of each frame.
func stacks(samples []*profile.Sample) string {
	var text strings.Builder
	for _, sample := range samples {
		fmt.Fprintf(&text, "%d with labels %v:\n", sample.Value[0], sample.Label)
		for _, location := range sample.Location {
			for _, line := range location.Line {
				fmt.Fprintf(&text, "\t%s %s:%d\n", line.Function.Name, line.Function.Filename, line.Line)
			}
		}
	}
	return text.String()
}
