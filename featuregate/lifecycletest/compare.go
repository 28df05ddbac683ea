// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycletest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	// calm is how long nothing may change until that counts as what there is.
	calm = 1500 * time.Millisecond
	// shown is how many differences are printed.
	shown = 20
)

// errDiffers is why compare and steady look again.
var errDiffers = errors.New("it differs from what it was")

func everything(s snapshot) []map[string]string {
	return []map[string]string{s.objects, s.stored, s.published}
}

func onlyPublished(s snapshot) []map[string]string { return []map[string]string{s.published} }

func same(a, b []map[string]string) bool {
	return slices.EqualFunc(a, b, maps.Equal[map[string]string])
}

// compare waits for what is wanted: what is published follows features, and does so a moment later.
func (r *runner) compare(what string, want snapshot, of func(snapshot) []map[string]string) {
	r.t.Helper()
	var got snapshot
	err := r.poll(r.options.Following, func(ctx context.Context) error {
		now, err := r.snapshot(ctx)
		if err != nil {
			return err
		}
		if got = now; !same(of(want), of(got)) {
			return errDiffers
		}
		return nil
	})
	switch {
	case errors.Is(err, errDiffers):
		r.fatalf("%s (-want,+got):\n%s", what, difference(of(want), of(got)))
	case err != nil:
		r.fatalf("%s: %v", what, err)
	}
}

// difference tells people what differs, for each place by itself.
func difference(want, got []map[string]string) string {
	var out []string
	for i := range want {
		keys := maps.Clone(want[i])
		maps.Copy(keys, got[i])
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			before, was := want[i][key]
			after, is := got[i][key]
			switch {
			case !is:
				out = append(out, "- "+key)
			case !was:
				out = append(out, "+ "+key+"\n"+strings.Join(lines(after), "\n"))
			case before != after:
				out = append(out, "  "+key+"\n"+cmp.Diff(lines(before), lines(after)))
			}
		}
	}
	if more := len(out) - shown; more > 0 {
		out = append(out[:shown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "\n")
}

// lines breaks JSON into lines.
func lines(text string) []string {
	if out, err := yaml.JSONToYAML([]byte(text)); err == nil {
		text = string(out)
	}
	return strings.Split(text, "\n")
}

// steady returns what there is once it has been the same for a while: servers that have just begun still write and publish.
func (r *runner) steady() snapshot {
	r.t.Helper()
	var last snapshot
	since := time.Time{}
	err := r.poll(r.options.Patience, func(ctx context.Context) error {
		next, err := r.snapshot(ctx)
		if err != nil {
			since = time.Time{}
			return err
		}
		if since.IsZero() || !same(everything(last), everything(next)) {
			last, since = next, time.Now()
		}
		if time.Since(since) < calm {
			return errDiffers
		}
		return nil
	})
	if err != nil {
		r.fatalf("what is stored and published does not come to rest: %v", err)
	}
	return last
}
