// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"os"
	"testing"
	"time"
)

func TestCPUTimeIsReadWhateverTheProgramIsCalled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stat string
		want float64
		bad  bool
	}{
		"plain":              {stat: "7 (annex) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0", want: 3},
		"a name with spaces": {stat: "7 (a) b 9 9) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0", want: 3},
		"too short":          {stat: "7 (annex) S 1 7", bad: true},
		"not a number":       {stat: "7 (annex) S 1 7 7 0 -1 4194560 100 0 0 0 x 50 0 0 20 0 9 0", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := cpuOf([]byte(tc.stat))
			if got != tc.want || (err != nil) != tc.bad {
				t.Errorf("got %v and the error %v, want %v and an error: %v", got, err, tc.want, tc.bad)
			}
		})
	}
}

func TestOwnProcessUsesWhatItIsSeenToUse(t *testing.T) {
	t.Parallel()
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		after, err := CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after > before {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a minute of work has cost no CPU: %v seconds before and after", before)
		}
	}
	all, anonymous, err := Resident(os.Getpid())
	if err != nil || anonymous <= 0 || all < anonymous {
		t.Errorf("the memory is %v MiB, of it anonymous %v, with the error %v", all, anonymous, err)
	}
	if _, err := CPU(-1); err == nil {
		t.Error("a process that cannot be has used CPU")
	}
}
