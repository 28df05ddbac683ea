// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// maxGoawayChance is the most that a kube-apiserver takes, too: connections cost more than requests.
const maxGoawayChance = 0.02

// Requests say how long requests may take, what is in all answers, and what becomes of requests while a server stops.
type Requests struct {
	// Timeout is how long a request may take that is neither a watch nor otherwise long by nature.
	Timeout time.Duration
	// MinWatchSeconds is how long a watch lasts at least whose client says nothing; it ends by itself before twice that.
	MinWatchSeconds int
	// GoawayChance is how likely a request has its client connect anew, from 0 to 0.02.
	GoawayChance float64
	// ExternalHostname is where clients are told to find the server; empty means the address of this machine.
	ExternalHostname string
	// AllowedOrigins are regular expressions of the web sites whose pages may send requests from browsers.
	AllowedOrigins []string
	// TransportSecurity are the directives of the header Strict-Transport-Security; without any it is not sent.
	TransportSecurity []string
	// ShutdownRetryAfter has a server that stops go on listening until requests under way are answered, and send new ones away.
	ShutdownRetryAfter bool
}

// NewRequests returns what a kube-apiserver does.
func NewRequests() Requests {
	return Requests{Timeout: time.Minute, MinWatchSeconds: 1800}
}

// AddFlags adds flags under the names that a kube-apiserver has for them.
func (r *Requests) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&r.Timeout, "request-timeout", r.Timeout, "How long a request may take, unless it is a watch or otherwise long by nature.")
	fs.IntVar(&r.MinWatchSeconds, "min-request-timeout", r.MinWatchSeconds,
		"How many seconds a watch lasts at least whose client says nothing about that. It ends by itself before twice that, each at another time.")
	fs.Float64Var(&r.GoawayChance, "goaway-chance", r.GoawayChance,
		"How likely a request has its client connect anew, from 0 to 0.02, so that clients spread over replicas behind a load balancer. Leave it at 0 where there is none.")
	fs.StringVar(&r.ExternalHostname, "external-hostname", r.ExternalHostname,
		"Host name under which clients are told to find this server. Without it that is the address of this machine.")
	fs.StringSliceVar(&r.AllowedOrigins, "cors-allowed-origins", r.AllowedOrigins,
		"Web sites whose pages may send requests from browsers (CORS), as regular expressions from the beginning to the end of the host, such as //example\\.com$ or ^https://example\\.com(:|$).")
	fs.StringSliceVar(&r.TransportSecurity, "strict-transport-security-directives", r.TransportSecurity,
		"Directives of the header Strict-Transport-Security: max-age=SECONDS, includeSubDomains, preload. Without any it is not sent.")
	fs.BoolVar(&r.ShutdownRetryAfter, "shutdown-send-retry-after", r.ShutdownRetryAfter,
		"Have a server that stops go on listening until requests under way are answered, and answer new ones with 429 and Retry-After.")
}

// Validate reports every mistake.
func (r *Requests) Validate() []error {
	var errs []error
	if r.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("--request-timeout is %s; set more than 0s", r.Timeout))
	}
	if r.MinWatchSeconds < 1 {
		errs = append(errs, fmt.Errorf("--min-request-timeout is %d; set at least 1", r.MinWatchSeconds))
	}
	if r.GoawayChance < 0 || r.GoawayChance > maxGoawayChance {
		errs = append(errs, fmt.Errorf("--goaway-chance is %g; set 0 to %g", r.GoawayChance, maxGoawayChance))
	}
	for _, origin := range r.AllowedOrigins {
		if err := checkOrigin(origin); err != nil {
			errs = append(errs, fmt.Errorf("--cors-allowed-origins: %q %w", origin, err))
		}
	}
	for _, directive := range r.TransportSecurity {
		age, isAge := strings.CutPrefix(directive, "max-age=")
		if _, err := strconv.ParseUint(age, 10, 63); directive != "includeSubDomains" && directive != "preload" && (!isAge || err != nil) {
			errs = append(errs, fmt.Errorf("--strict-transport-security-directives: %q is none of max-age=SECONDS, includeSubDomains and preload", directive))
		}
	}
	return errs
}

// checkOrigin refuses what would match other sites as well: the expression has to say where the host begins and where it ends.
func checkOrigin(origin string) error {
	if _, err := regexp.Compile(origin); err != nil {
		return fmt.Errorf("is not a regular expression: %w", err)
	}
	if !strings.Contains(origin, "^") && !strings.Contains(origin, "//") {
		return fmt.Errorf("does not say where the host begins; put ^ or // before it")
	}
	if !strings.Contains(origin, "$") && !strings.Contains(origin[strings.Index(origin, "//")+1:], ":") {
		return fmt.Errorf("does not say where the host ends; put $ or (:|$) behind it")
	}
	return nil
}

// ApplyTo sets all of it.
func (r *Requests) ApplyTo(config *genericapiserver.Config) {
	config.RequestTimeout = r.Timeout
	config.MinRequestTimeout = r.MinWatchSeconds
	config.GoawayChance = r.GoawayChance
	config.ExternalAddress = r.ExternalHostname
	config.CorsAllowedOriginList = r.AllowedOrigins
	config.HSTSDirectives = r.TransportSecurity
	config.ShutdownSendRetryAfter = r.ShutdownRetryAfter
}
