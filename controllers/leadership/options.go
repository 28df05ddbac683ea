// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/client-go/rest"
)

// Options configure the leadership of one process. NewOptions has the defaults.
type Options struct {
	// Client reaches the server that has the Leases and that the groups work on. Clients of terms are made from it.
	Client *rest.Config
	// Host is the first part of holder identities, for people; empty means the host's name.
	Host string

	Timings Timings

	// ExitOnLoss ends the process when a Lease is lost, as programs did before KEP-5366: the gate GracefulLeaderTransition is off.
	// A term that fails ends the process, too, and groups are not spread.
	ExitOnLoss bool
	// Replicas names the set of processes that share the groups: each announces itself with a Lease of this name and a suffix, in
	// this namespace, and groups are spread evenly over them. Empty means that groups stay where they are.
	Replicas struct{ Namespace, Name string }
	// MarkWrites has the clients of terms name the holder as field manager of writes that name none, so that a
	// ValidatingAdmissionPolicy can see it. Each term then has an entry of its own in managedFields.
	MarkWrites bool

	// DetectLeaks looks, after each term, for goroutines that former terms have left behind, and reports them in the log and by the metric
	// leader_election_leaked_goroutines. It takes a profile of all goroutines each time.
	DetectLeaks bool

	// Owner names what only one process can have at a time, such as a locked data directory. A Lease whose holder had the same
	// owner is taken at once, since its process is dead, unless the holder is another elector of this process. It has lower case
	// letters and digits only. Empty means none.
	Owner string
	// Metrics are shared by all electors of a process; nil means that nothing is counted.
	Metrics *Metrics
	// Clock is for tests; the zero value is the clock of the machine.
	Clock Clock
	// BeforeExit is called before the process is ended, to close what must not break and to flush a log that is buffered; nil means nothing.
	BeforeExit func(why error)
	// Exit ends the process; nil means os.Exit.
	Exit func(code int)
}

// Timings are the usual ones of leader election, with the usual defaults.
type Timings struct {
	// LeaseDuration is how long others wait after the last renewal they saw before they take the Lease.
	LeaseDuration time.Duration
	// RenewDeadline is how long after the last renewal the work is cancelled.
	RenewDeadline time.Duration
	// RetryPeriod is the pause after a failed attempt to acquire or renew. Renewals are made every LeaseDuration/3.
	RetryPeriod time.Duration
	// StopTimeout is how long runnables may take to return. If they do not, the process ends.
	StopTimeout time.Duration
	// BalanceAfter is how long the set of replicas must have been stable before a process that leads too many groups hands one over.
	BalanceAfter time.Duration
}

// Default timings.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
	DefaultStopTimeout   = 10 * time.Second
	DefaultBalanceAfter  = 30 * time.Second
)

// NewOptions returns the defaults; Client is for the caller to set.
func NewOptions() Options {
	return Options{Timings: Timings{
		LeaseDuration: DefaultLeaseDuration, RenewDeadline: DefaultRenewDeadline, RetryPeriod: DefaultRetryPeriod,
		StopTimeout: DefaultStopTimeout, BalanceAfter: DefaultBalanceAfter,
	}}
}

// AddFlags adds the timings under their usual names.
func (t *Timings) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&t.LeaseDuration, "leader-elect-lease-duration", t.LeaseDuration,
		"How long others wait after the last renewal they saw before they take a Lease over.")
	fs.DurationVar(&t.RenewDeadline, "leader-elect-renew-deadline", t.RenewDeadline,
		"How long after the last renewal a leader goes on working. Less than --leader-elect-lease-duration.")
	fs.DurationVar(&t.RetryPeriod, "leader-elect-retry-period", t.RetryPeriod,
		"How long to wait after a failed attempt to acquire or renew a Lease.")
	fs.DurationVar(&t.StopTimeout, "leader-elect-stop-timeout", t.StopTimeout,
		"How long controllers may take to stop before their Lease is released. The process ends if one takes longer.")
}

// renewShare and stopShare: renewals go out every third of the lease duration, and all work has stopped a tenth of it before its end.
const (
	renewShare = 3
	stopShare  = 10
)

// jitter is the most by which a retry period is stretched, as in client-go.
const jitter = 1.2

// Validate reports every mistake.
func (t Timings) Validate() []error {
	var errs []error
	if t.LeaseDuration < time.Second {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration is %s; set at least 1s, which is the unit that Leases have", t.LeaseDuration))
	}
	if t.LeaseDuration%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration is %s; set whole seconds, which is the unit that Leases have", t.LeaseDuration))
	}
	if t.RetryPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-retry-period is %s; set more than 0", t.RetryPeriod))
	}
	if stopped := t.LeaseDuration - t.LeaseDuration/stopShare; t.RenewDeadline >= stopped {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline %s leaves no time to stop within --leader-elect-lease-duration %s; set the deadline below %s",
			t.RenewDeadline, t.LeaseDuration, stopped))
	}
	if retry := time.Duration(jitter * float64(t.RetryPeriod)); t.RenewDeadline <= retry {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline %s leaves no time for a second attempt after --leader-elect-retry-period %s; set the deadline above %s",
			t.RenewDeadline, t.RetryPeriod, retry))
	}
	if renew := t.LeaseDuration / renewShare; t.RenewDeadline <= renew {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline %s is not after the next renewal, which is due a third of --leader-elect-lease-duration after the last; set the deadline above %s",
			t.RenewDeadline, renew))
	}
	if t.StopTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-stop-timeout is %s; set more than 0", t.StopTimeout))
	}
	if t.BalanceAfter < 0 {
		errs = append(errs, errors.New("BalanceAfter is negative; set 0 to balance groups at once"))
	}
	return errs
}
