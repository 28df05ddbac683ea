// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// maxRewound is up to which size the body of a request is kept until it has been answered. It is what servers take.
const maxRewound = 3 << 20

// rewind lets the transport send a request again. A server that stops tells on each connection which requests it is not going to look
// at any more, since they were on their way then; without the body those could not be sent to another one.
func rewind(r *http.Request) error {
	if r.ContentLength <= 0 || r.ContentLength > maxRewound {
		return nil
	}
	content := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, content); err != nil {
		return fmt.Errorf("read the body of the request: %w", err)
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	r.Body = io.NopCloser(bytes.NewReader(content))
	return nil
}
