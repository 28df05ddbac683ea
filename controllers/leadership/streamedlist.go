// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"errors"
	"fmt"
	"net/http"
)

// errNoStream is why a reflector asks for an ordinary list.
var errNoStream = errors.New("the list cannot be streamed")

// isStreamedList tells the watch that client-go's reflectors begin with.
func isStreamedList(request *http.Request) bool {
	return request.URL.Query().Get("sendInitialEvents") == "true"
}

// withoutSleep makes the two failures look like others after which client-go's reflectors, at v0.37, sleep for up to a minute without
// looking at their context: a refused connection and too many requests. An informer in that sleep cannot be stopped, which ends the
// process. After any other failure they ask for an ordinary list, and wait with that as they should.
func withoutSleep(response *http.Response, err error) (*http.Response, error) {
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %v", errNoStream, err) //nolint:errorlint // what it wraps is not to be found
	case response.StatusCode == http.StatusTooManyRequests:
		_ = response.Body.Close()
		return nil, fmt.Errorf("%w: the server answered %s", errNoStream, response.Status)
	}
	return response, nil
}
