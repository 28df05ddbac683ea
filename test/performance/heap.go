// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
)

var heapLine = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// heap returns how many bytes are in use in the server's heap after garbage collection; 0 for a peer whose server is not asked.
func (p *peer) heap(ctx context.Context) (float64, error) {
	if p.admin == nil {
		return 0, nil
	}
	var text []byte
	// What has a finalizer goes with the second collection, and so does what pools hold.
	for range 2 {
		var err error
		if text, err = p.admin.do(ctx, request{method: http.MethodGet, path: "/debug/pprof/heap?gc=1&debug=1", accept: "text/plain; charset=utf-8"}); err != nil {
			return 0, fmt.Errorf("ask %s for its heap: %w", p.name, err)
		}
	}
	return heapOf(text)
}

func heapOf(profile []byte) (float64, error) {
	found := heapLine.FindSubmatch(profile)
	if found == nil {
		return 0, errors.New("a profile of the heap does not tell how much of it is in use")
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
