// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package singlewriter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Event is a line that a worker prints, see worker/writer.go.
type Event struct {
	At    int64  `json:"at"`
	Event string `json:"event"`
	Group string `json:"group"`
	Term  string `json:"term"`
	Bytes uint64 `json:"bytes"`
}

// Events reads the lines of one process. A last one that is cut off is left out.
func Events(output []byte) ([]Event, error) {
	var out []Event
	for line := range bytes.Lines(output) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// Interval is the life of one runner. Its end is math.MaxInt64 while it lasts.
type Interval struct {
	Group, Term string
	From, To    int64
}

// Intervals returns the lives of the runners of a process. What the process has not ended itself has ended with it.
func Intervals(events []Event, died int64) []Interval {
	var out []Interval
	running := map[string]int{}
	for _, e := range events {
		switch e.Event {
		case "start":
			running[e.Term] = len(out)
			out = append(out, Interval{Group: e.Group, Term: e.Term, From: e.At, To: died})
		case "stop":
			if i, ok := running[e.Term]; ok {
				out[i].To = e.At
			}
		case "exit":
			died = e.At
			for i := range out {
				out[i].To = min(out[i].To, died)
			}
		}
	}
	return out
}

// Overlaps describes all pairs of runners of one group that ran at the same time.
func Overlaps(intervals []Interval) []string {
	all := slices.Clone(intervals)
	slices.SortFunc(all, func(a, b Interval) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.From, b.From))
	})
	var out []string
	last := Interval{}
	for _, next := range all {
		if next.Group == last.Group && next.From < last.To {
			end := "which still runs"
			if last.To != math.MaxInt64 {
				end = fmt.Sprintf("which stopped %s later", time.Duration(last.To-next.From))
			}
			out = append(out, fmt.Sprintf("%s: the runner of %s started beside that of %s, %s", next.Group, next.Term, last.Term, end))
		}
		if next.Group != last.Group || next.To > last.To {
			last = next
		}
	}
	return out
}

// Running counts the runners of each group that still run.
func Running(intervals []Interval) map[string]int {
	out := map[string]int{}
	for _, interval := range intervals {
		if interval.To == math.MaxInt64 {
			out[interval.Group]++
		}
	}
	return out
}

// bootTime is the clock of the events.
func bootTime() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return math.MaxInt64
	}
	return now.Nano()
}
