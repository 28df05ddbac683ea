// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestControlCharactersAreEscaped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain ünïcode 日本\n\ttext": "plain ünïcode 日本\n\ttext",
		"\x1b[2J\r\a\x00\b":        `\u001b[2J\u000d\u0007\u0000\u0008`,
		"\x7f\u0080\u009b31m":      `\u007f\u0080\u009b31m`,
		"8 bit \x9b31m":            "8 bit \uFFFD31m",
	} {
		var whole, bytewise bytes.Buffer
		n, err := Safe(&whole).Write([]byte(text))
		if whole.String() != want || n != len(text) || err != nil {
			t.Errorf("%q is written as %q (%d, %v), want %q", text, whole.String(), n, err, want)
		}
		one := Safe(&bytewise)
		for i := range len(text) {
			if _, err := one.Write([]byte{text[i]}); err != nil {
				t.Fatal(err)
			}
		}
		if bytewise.String() != want {
			t.Errorf("%q is written byte by byte as %q, want %q", text, bytewise.String(), want)
		}
		if got := Text(text); got != want {
			t.Errorf("Text(%q) is %q, want %q", text, got, want)
		}
	}
	var out bytes.Buffer
	if err := json.NewEncoder(Safe(&out)).Encode("\u009b\x7f\x1b"); err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != "\u009b\x7f\x1b" {
		t.Errorf("JSON is %q, which is read as %q, %v", out.String(), back, err)
	}
}
