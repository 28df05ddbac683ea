// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logonce keeps an error that recurs with every retry from being logged each time.
package logonce

// Error is the outcome of the last attempt; the zero value is success. One goroutine at a time uses it.
type Error struct {
	text string
}

// Changed records the outcome of an attempt, and reports whether it differs from that of the last one.
func (e *Error) Changed(err error) bool {
	if err == nil {
		return e.ChangedText("")
	}
	return e.ChangedText(err.Error())
}

// ChangedText is Changed for errors whose own text differs with every attempt. No text means success.
func (e *Error) ChangedText(text string) bool {
	changed := e.text != text
	e.text = text
	return changed
}
