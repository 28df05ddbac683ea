// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestRequestFlags(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags string
		want  []string // one a mistake
	}{
		"defaults":             {},
		"all":                  {flags: `--request-timeout=1s --min-request-timeout=1 --goaway-chance=0.02 --external-hostname=a --cors-allowed-origins=//a$ --strict-transport-security-directives=max-age=1,preload --shutdown-send-retry-after`},
		"no time":              {flags: "--request-timeout=0s --min-request-timeout=0", want: []string{"--request-timeout is 0s; set more than 0s", "--min-request-timeout is 0; set at least 1"}},
		"too many connections": {flags: "--goaway-chance=0.03", want: []string{"--goaway-chance is 0.03; set 0 to 0.02"}},
		"negative chance":      {flags: "--goaway-chance=-1", want: []string{"--goaway-chance is -1"}},
		"no expression":        {flags: "--cors-allowed-origins=//[$", want: []string{`"//[$" is not a regular expression`}},
		"any site that ends so": {flags: `--cors-allowed-origins=example\.com$`,
			want: []string{"does not say where the host begins; put ^ or // before it"}},
		"any site that begins so": {flags: `--cors-allowed-origins=^https://example\.com`,
			want: []string{"does not say where the host ends; put $ or (:|$) behind it"}},
		"any port":           {flags: `--cors-allowed-origins=//example\.com(:|$)`},
		"a port":             {flags: `--cors-allowed-origins=//example\.com:8080`},
		"unknown directives": {flags: "--strict-transport-security-directives=max-age=x,max-age,forever", want: []string{`"max-age=x" is none of`, `"max-age" is none of`, `"forever" is none of`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := NewRequests()
			flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
			requests.AddFlags(flags)
			if err := flags.Parse(strings.Fields(tc.flags)); err != nil {
				t.Fatal(err)
			}
			errs := requests.Validate()
			if len(errs) != len(tc.want) {
				t.Fatalf("got %v, want %d errors", errs, len(tc.want))
			}
			for i, want := range tc.want {
				if !strings.Contains(errs[i].Error(), want) {
					t.Errorf("got %q, want %q", errs[i], want)
				}
			}
		})
	}
}
