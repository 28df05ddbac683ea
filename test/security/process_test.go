// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// listeners returns the sockets that a process listens on: "tcp ADDRESS", and "unix PATH" with those in the abstract namespace ("@…").
func listeners(pid int) ([]string, error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, file := range files {
		// Files come and go meanwhile; one that went does not listen.
		if target, err := os.Readlink(filepath.Join(proc, "fd", file.Name())); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	var found []string
	for _, network := range []string{"tcp", "tcp6", "udp", "udp6", "unix"} {
		content, err := os.ReadFile(filepath.Join(proc, "net", network))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(string(content), "\n")[1:] {
			fields := strings.Fields(line)
			switch {
			case network == "unix" && len(fields) >= 7 && fields[3] == "00010000" && own[fields[6]]:
				found = append(found, "unix "+strings.Join(fields[7:], " "))
			case network == "tcp" && len(fields) >= 10 && fields[3] == "0A" && own[fields[9]]:
				found = append(found, "tcp "+addressOf(fields[1]))
			case network == "tcp6" && len(fields) >= 10 && fields[3] == "0A" && own[fields[9]],
				strings.HasPrefix(network, "udp") && len(fields) >= 10 && own[fields[9]] && strings.HasSuffix(fields[2], ":0000"):
				found = append(found, network+" "+fields[1])
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// addressOf reads an address as /proc/net/tcp has it.
func addressOf(hexadecimal string) string {
	ip, port, _ := strings.Cut(hexadecimal, ":")
	raw, err := hex.DecodeString(ip)
	number, numberErr := strconv.ParseUint(port, 16, 16)
	if err != nil || numberErr != nil {
		return hexadecimal
	}
	slices.Reverse(raw)
	return net.JoinHostPort(net.IP(raw).String(), strconv.FormatUint(number, 10))
}

// resident returns the memory of the process that is resident, and the most that has been since mostResident was reset, in bytes.
func (a *annex) resident(t *testing.T) (now, most int64) {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.pid()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			now = kilobytes << 10
		case "VmHWM:":
			most = kilobytes << 10
		}
	}
	if now == 0 || most == 0 {
		t.Fatalf("no memory in %s", content)
	}
	return now, most
}

// wantLittleMemory fails the test if what it does makes the process grow by more than the given number of MiB at any time.
func (a *annex) wantLittleMemory(t *testing.T, mebibytes int64) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", a.pid()), []byte("5"), 0o600); err != nil {
		t.Fatalf("resetting the most that was resident: %v", err)
	}
	before, _ := a.resident(t)
	t.Cleanup(func() {
		after, most := a.resident(t)
		t.Logf("resident before %d MiB, at most %d MiB, after %d MiB", before>>20, most>>20, after>>20)
		if grown := (most - before) >> 20; grown > mebibytes {
			t.Errorf("it grew by %d MiB, want at most %d", grown, mebibytes)
		}
	})
}
