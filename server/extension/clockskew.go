// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// clockTolerance is how far the host's clock may be from this machine's. Certificates made here are valid an hour earlier
// than they were made, so more is needed to break anything; but it should be known before.
const clockTolerance = 5 * time.Minute

// clockWatch compares the date in the host's answers with this machine's clock. Clocks that are apart show as certificates
// that are not valid yet and as tokens that have expired, which nobody takes for a matter of clocks.
type clockWatch struct {
	next  http.RoundTripper
	now   func() time.Time
	apart *atomic.Bool
}

// watchClock returns what wraps the transport of a client configuration.
func watchClock() func(http.RoundTripper) http.RoundTripper {
	apart := &atomic.Bool{}
	return func(next http.RoundTripper) http.RoundTripper {
		return clockWatch{next: next, now: time.Now, apart: apart}
	}
}

// RoundTrip passes the request on.
func (c clockWatch) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	date, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return response, nil //nolint:nilerr // without a date there is nothing to compare
	}
	difference := date.Sub(c.now()).Round(time.Second)
	apart := difference.Abs() > clockTolerance
	if apart != c.apart.Swap(apart) {
		logger := klog.FromContext(request.Context()).WithValues("hostIsAheadBy", difference)
		if apart {
			logger.Error(nil, "The clocks of the host and of this machine are apart; certificates and tokens may be refused until one of them is set right")
		} else {
			logger.Info("The clocks of the host and of this machine agree again")
		}
	}
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (c clockWatch) WrappedRoundTripper() http.RoundTripper { return c.next }
