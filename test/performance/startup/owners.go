// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// profileRate is how many bytes are allocated for each allocation that is noted: often enough for small parts to be told apart.
const profileRate = 4096

// owners are the parts of `annex up` that objects belong to, by functions on the way to where they were made. The first that matches counts.
var owners = []struct {
	name  string
	stack *regexp.Regexp
}{
	{"OpenAPI", regexp.MustCompile(`kube-openapi|[oO]penAPI|/openapi\.`)},
	{"server-side apply", regexp.MustCompile(`managedfields|structured-merge-diff`)},
	{"packages, when the program begins", regexp.MustCompile(`runtime\.doInit`)},
	{"metrics", regexp.MustCompile(`prometheus|component-base/metrics`)},
	{"compression", regexp.MustCompile(`compress/`)},
	{"routes of kinds", regexp.MustCompile(`APIInstaller|go-restful`)},
	{"other paths", regexp.MustCompile(`PathRecorderMux`)},
	{"etcd", regexp.MustCompile(`go\.etcd\.io/(etcd/server|raft|bbolt)`)},
	{"etcd's clients", regexp.MustCompile(`etcd/client|google\.golang\.org/grpc`)},
	{"watch caches and storage", regexp.MustCompile(`storage/cacher|storage/etcd3|generic/registry|annex/registry`)},
	{"informers", regexp.MustCompile(`client-go/(tools/cache|informers|metadata)`)},
	{"connections and requests", regexp.MustCompile(`net/http|x/net/http2|crypto/tls|internal/http2`)},
	{"schemes", regexp.MustCompile(`runtime\.\(\*Scheme\)`)},
	{"goroutines", regexp.MustCompile(`runtime\.malg|runtime\.newproc`)},
}

// owners starts one more server, which notes what it allocates, and sums that by owner, in MiB.
func (s settings) owners(ctx context.Context) (map[string]float64, error) {
	progress("asking where the memory goes")
	if err := os.Setenv("GODEBUG", "memprofilerate="+strconv.Itoa(profileRate)); err != nil {
		return nil, err
	}
	defer func() { _ = os.Unsetenv("GODEBUG") }()
	next, err := s.newAnnex()
	if err != nil {
		return nil, err
	}
	defer next.remove()
	if _, err = next.start(ctx); err != nil {
		return nil, err
	}
	if err = pause(ctx, s.idle); err != nil {
		return nil, err
	}
	var profile []byte
	// What pools hold goes with the second collection.
	for range 2 {
		if profile, err = next.(*annex).probe.get(ctx, "/debug/pprof/heap?debug=1&gc=1"); err != nil {
			return nil, err
		}
	}
	found, err := sumOwners(profile)
	return found, errors.Join(err, next.stop())
}

var (
	recordLine = regexp.MustCompile(`^(\d+): (\d+) \[\d+: \d+\] @`)
	frameLine  = regexp.MustCompile(`^#\t0x[0-9a-f]+\t(\S+)`)
)

// sumOwners reads a heap profile as text.
func sumOwners(profile []byte) (map[string]float64, error) {
	sums := map[string]float64{}
	size, stack := 0.0, []string{}
	end := func() {
		if size > 0 {
			sums[ownerOf(strings.Join(stack, "\n"))] += size / (1 << 20)
		}
		size, stack = 0, nil
	}
	lines := bufio.NewScanner(bytes.NewReader(profile))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if record := recordLine.FindStringSubmatch(lines.Text()); record != nil {
			end()
			count, countErr := strconv.ParseFloat(record[1], 64)
			noted, sizeErr := strconv.ParseFloat(record[2], 64)
			if err := errors.Join(countErr, sizeErr); err != nil {
				return nil, fmt.Errorf("read the profile: %w", err)
			}
			if count > 0 {
				// Of small objects only some are noted.
				size = noted / (1 - math.Exp(-noted/count/profileRate))
			}
		} else if frame := frameLine.FindStringSubmatch(lines.Text()); frame != nil {
			stack = append(stack, frame[1])
		}
	}
	end()
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	if len(sums) == 0 {
		return nil, errors.New("the profile is empty")
	}
	return sums, nil
}

func ownerOf(stack string) string {
	for _, owner := range owners {
		if owner.stack.MatchString(stack) {
			return owner.name
		}
	}
	return "other"
}
