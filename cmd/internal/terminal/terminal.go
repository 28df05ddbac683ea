// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package terminal makes text of others safe to be shown: names, values and messages from an API or a file may contain what a terminal
// obeys. k8s.io/cli-runtime escapes ESC and CR in tables; this covers all control characters in everything that a command prints.
package terminal

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// writer replaces control characters. Text of which the last character is not complete is kept until the next write.
type writer struct {
	to      io.Writer
	partial []byte
}

// Safe returns a writer that passes text on with all control characters but line feeds and tabs as \u escapes, which JSON reads as the
// same text.
func Safe(to io.Writer) io.Writer { return &writer{to: to} }

// Unwrap returns the writer below one of Safe, for text that is meant for a terminal, or else the writer itself.
func Unwrap(to io.Writer) io.Writer {
	if w, ok := to.(*writer); ok {
		return w.to
	}
	return to
}

// Write implements io.Writer.
func (w *writer) Write(text []byte) (int, error) {
	rest := append(w.partial, text...)
	w.partial = nil
	var out bytes.Buffer
	for len(rest) > 0 {
		if !utf8.FullRune(rest) {
			w.partial = bytes.Clone(rest)
			break
		}
		r, size := utf8.DecodeRune(rest)
		escape(&out, r)
		rest = rest[size:]
	}
	if _, err := w.to.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Text returns text as Safe writes it.
func Text(text string) string {
	var out bytes.Buffer
	for _, r := range text {
		escape(&out, r)
	}
	return out.String()
}

// escape writes bytes that are not UTF-8, of which terminals may obey some, as the replacement character.
func escape(out *bytes.Buffer, r rune) {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		fmt.Fprintf(out, `\u%04x`, r)
		return
	}
	out.WriteRune(r)
}
