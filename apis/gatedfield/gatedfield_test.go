// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gatedfield

import (
	"strings"
	"testing"
)

func TestCovers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		path, loops string
		want        map[string]bool
	}{
		"plain": {
			path: "spec color",
			want: map[string]bool{
				"spec color":     true,
				"spec color red": true,
				"spec":           false,
				"status color":   false,
				"spec colors":    false,
				"":               false,
			},
		},
		"list and map": {
			path: "spec parts [] zones {} note",
			want: map[string]bool{
				"spec parts [] zones a note":     true,
				"spec parts [] zones note note":  true,
				"spec parts x zones a note":      false,
				"spec parts [] zones [] note":    false,
				"spec parts [] zones note":       false,
				"spec parts [] zones a note b c": true,
			},
		},
		"loop": {
			path:  "spec root color",
			loops: "spec root ( left | children [] )* color",
			want: map[string]bool{
				"spec root color":                        true,
				"spec root left color":                   true,
				"spec root left children [] left color":  true,
				"spec root children color":               false,
				"spec root style color":                  false,
				"spec root left style color":             false,
				"spec root children [] children [] name": false,
			},
		},
		"loop in a loop": {
			path:  "root ( a ( b )* c )* d",
			loops: "root ( a ( b )* c )* d",
			want: map[string]bool{
				"root d":             true,
				"root a c d":         true,
				"root a b b c d":     true,
				"root a b c a b c d": true,
				"root a b d":         false,
				"root b c d":         false,
			},
		},
		"a name that is also a detour": {
			path:  "next",
			loops: "( next )* next",
			want:  map[string]bool{"next": true, "next next next": true, "": false, "other": false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			field := Field{Path: strings.Fields(tc.path)}
			if tc.loops != "" {
				field.Loops = strings.Fields(tc.loops)
			}
			for path, want := range tc.want {
				if got := field.Covers(strings.Fields(path)); got != want {
					t.Errorf("%q: got %v, want %v", path, got, want)
				}
			}
		})
	}
}
