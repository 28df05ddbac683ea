// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// ticksPerSecond is the unit of CPU time in /proc/PID/stat, which is the same on all architectures that Go supports.
const ticksPerSecond = 100

// CPU returns how many seconds of CPU a process has used, in user mode and in the kernel. It is exact to 10 ms.
func CPU(pid int) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	seconds, err := cpuOf(content)
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	return seconds, nil
}

func cpuOf(stat []byte) (float64, error) {
	// The name of the program comes second, and may hold anything.
	_, after, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := bytes.Fields(after)
	if !found || len(fields) < 13 {
		return 0, errors.New("the kernel tells it in an unknown way")
	}
	total := 0.0
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseFloat(string(field), 64)
		if err != nil {
			return 0, err
		}
		total += ticks
	}
	return total / ticksPerSecond, nil
}

var (
	residentLine  = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)
	anonymousLine = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)
)

// Resident returns the memory of a process in MiB, and how much of it is anonymous, which is what it does not share with its file.
func Resident(pid int) (all, anonymous float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for line, into := range map[*regexp.Regexp]*float64{residentLine: &all, anonymousLine: &anonymous} {
		found := line.FindSubmatch(status)
		if found == nil {
			return 0, 0, fmt.Errorf("read the memory of process %d: the kernel does not tell it", pid)
		}
		kib, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
		}
		*into = kib / 1024
	}
	return all, anonymous, nil
}
