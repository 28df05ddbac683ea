// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// Lengths of the parts of a holder's identity: all of it is to fit into a field manager, which has 128 bytes.
const (
	maxHost   = 63
	maxOwner  = 32
	uidLength = 10
)

// owners is what Options.Owner may be: a part of the names of Leases, and of identities, whose parts are set apart by "_" and ".".
var owners = regexp.MustCompile(fmt.Sprintf("^[a-z0-9]{0,%d}$", maxOwner))

// wedgeCheck is how often the metric of wedged groups is brought up to date.
const wedgeCheck = time.Second

// Candidate campaigns for the Leases of groups, and runs the groups it leads, in one process.
type Candidate struct {
	options Options
	leases  coordinationclient.LeasesGetter
	groups  []*group
	members *members
	mux     Mux
	// terms counts those it has tried to begin.
	terms atomic.Int64

	identity sync.Mutex
	// uid is unique to the process; former are those that turned out not to be.
	uid    string
	former []string

	stop   context.CancelCauseFunc
	ending sync.Once
	ended  chan error
}

// Mux is what handlers of terms are put on; the mux of a generic apiserver is one.
type Mux interface {
	Handle(path string, handler http.Handler)
	Unregister(path string)
}

// New returns a candidate for the groups. It starts nothing; the error lists every mistake.
func New(options Options, groups ...Group) (*Candidate, error) {
	if err := validate(options, groups); err != nil {
		return nil, err
	}
	if options.Host == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("find out the host's name: %w; set Options.Host", err)
		}
		options.Host = host
	}
	options.Host = options.Host[:min(len(options.Host), maxHost)]
	if options.Metrics == nil {
		options.Metrics = NewMetrics()
	}
	if options.Clock.Elapsed == nil {
		options.Clock.Elapsed = elapsed
	}
	if options.Clock.Now == nil {
		options.Clock.Now = time.Now
	}
	if options.Exit == nil {
		options.Exit = os.Exit //nolint:forbidigo // ending the process is what statement 4 of the design asks for
	}
	// Leases are few and must not wait for a limiter that runners share.
	election := rest.CopyConfig(options.Client)
	election.QPS, election.RateLimiter = -1, nil
	rest.AddUserAgent(election, "leader-election")
	leases, err := coordinationclient.NewForConfig(election)
	if err != nil {
		return nil, fmt.Errorf("make the client for Leases: %w", err)
	}
	c := &Candidate{options: options, leases: leases, ended: make(chan error, 1)}
	c.uid = c.newUID()
	for _, named := range groups {
		g := &group{
			Group: named, options: options, clock: options.Clock, candidate: c, done: make(chan struct{}),
			metrics: groupMetrics{Metrics: options.Metrics, name: named.Name}, status: newStatus(options.Clock, options.Timings),
		}
		g.leaks = newLeaks(g)
		c.groups = append(c.groups, g)
	}
	if options.Members.Name != "" && !options.ExitOnLoss {
		c.members = newMembers(c)
	}
	return c, nil
}

func validate(options Options, groups []Group) error {
	errs := options.Timings.Validate()
	if options.Client == nil {
		errs = append(errs, errors.New("Options.Client is nil; set the configuration of a client"))
	}
	if !owners.MatchString(options.Owner) {
		errs = append(errs, fmt.Errorf("Options.Owner is %q; set at most %d lower case letters and digits", options.Owner, maxOwner))
	}
	if (options.Members.Name == "") != (options.Members.Namespace == "") {
		errs = append(errs, errors.New("of Options.Members only the name or the namespace is set; set both or none"))
	}
	names, leases := map[string]bool{}, map[string]bool{}
	for _, g := range groups {
		if g.Name == "" || g.New == nil || g.Lease.Name == "" || g.Lease.Namespace == "" {
			errs = append(errs, fmt.Errorf("group %q lacks a name, a Lease with name and namespace, or New; set all of them", g.Name))
		}
		if names[g.Name] {
			errs = append(errs, fmt.Errorf("two groups are called %s; give each a name of its own", g.Name))
		}
		if leases[g.Lease.String()] {
			errs = append(errs, fmt.Errorf("two groups have the Lease %s; give each one of its own", g.Lease))
		}
		names[g.Name], leases[g.Lease.String()] = true, true
	}
	return utilerrors.NewAggregate(errs)
}

// UseMux has the handlers of terms put on a mux. It is called before Run.
func (c *Candidate) UseMux(mux Mux) { c.mux = mux }

// Run campaigns and leads until the context ends; then it stops all groups and releases their Leases. It returns an error only
// when a group could not be stopped and Options.Exit has returned. It can be called once.
func (c *Candidate) Run(ctx context.Context) error {
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	c.stop = stop
	defer stop(errStopped)
	defer context.AfterFunc(ctx, func() { stop(errStopped) })()

	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var beside, all sync.WaitGroup
	defer beside.Wait()
	defer stopBackground()
	for _, g := range c.groups {
		g.metrics.start()
	}
	for _, g := range c.groups {
		beside.Go(func() { g.leaks.run(background) })
		all.Go(func() {
			defer close(g.done)
			g.run(running)
		})
	}
	beside.Go(func() { c.watchWedges(background) })
	if c.members != nil {
		beside.Go(func() { c.members.run(background) })
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		all.Wait()
		<-running.Done()
	}()
	select {
	case <-finished:
		return nil
	case err := <-c.ended:
		// Options.Exit has returned, so the other groups still have to stop.
		stop(err)
		wait := time.NewTimer(c.options.Timings.StopTimeout)
		defer wait.Stop()
		select {
		case <-finished:
		case <-wait.C:
		}
		return err
	}
}

func (c *Candidate) watchWedges(ctx context.Context) {
	for ctx.Err() == nil {
		for _, g := range c.groups {
			_, _, reason := g.status.snapshot(g.Name)
			g.metrics.setWedged(reason)
		}
		pause(ctx, wedgeCheck)
	}
}

// newUID returns another uid. It comes from the kernel: copies of a virtual machine have the same state of everything else.
func (c *Candidate) newUID() string {
	uid := strings.ToLower(rand.Text()[:uidLength])
	if c.options.Owner != "" {
		return c.options.Owner + "." + uid
	}
	return uid
}

// nextHolder returns the identity of another term.
func (c *Candidate) nextHolder() string {
	c.identity.Lock()
	defer c.identity.Unlock()
	return fmt.Sprintf("%s_%s_%d", c.options.Host, c.uid, c.terms.Add(1))
}

// renounce gives up the identity of the process, which another one has, too.
func (c *Candidate) renounce() {
	c.identity.Lock()
	defer c.identity.Unlock()
	c.former = append(c.former, c.uid)
	c.uid = c.newUID()
}

// copied returns an error if the holder is another process that has, or had, the identity of this one.
func (c *Candidate) copied(holder string) error {
	c.identity.Lock()
	defer c.identity.Unlock()
	if slices.Contains(c.former, uidOf(holder)) {
		return fmt.Errorf("%w %s; run no copies of a running process, and edit no Lease that is held", errDuplicate, holder)
	}
	return nil
}

// ours tells holders whose work is known to have ended: terms of this process, whose groups run one at a time, and of a process
// with the same owner.
func (c *Candidate) ours(holder string) bool {
	c.identity.Lock()
	defer c.identity.Unlock()
	uid := uidOf(holder)
	owner, _, owned := cutLast(uid, ".")
	return uid == c.uid || owned && owner == c.options.Owner && owner != ""
}

// uidOf returns the process uid in a holder's identity; empty if it is none of ours.
func uidOf(holder string) string {
	process, _, ok := cutLast(holder, "_")
	if !ok {
		return ""
	}
	_, uid, _ := cutLast(process, "_")
	return uid
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// Statuses returns the role of the process in every group.
func (c *Candidate) Statuses() []Status {
	out := make([]Status, 0, len(c.groups))
	for _, g := range c.groups {
		status, _, _ := g.status.snapshot(g.Name)
		out = append(out, status)
	}
	return out
}

// ServeHTTP tells the role of every group in plain text, a line each, with status 500 while one is not healthy. It is meant for
// /healthz/leadership.
func (c *Candidate) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	err := c.Check(request)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
	for _, status := range c.Statuses() {
		_, _ = fmt.Fprintln(w, status)
	}
	if c.members != nil {
		_, _ = fmt.Fprintln(w, c.members)
	}
	if err != nil {
		_, _ = fmt.Fprintln(w, firstLine(err))
	}
}

// Name makes the candidate a health check.
func (c *Candidate) Name() string { return "leadership" }

// Check returns which groups are wedged, cannot use their Lease, or have a term with a failing check. Followers are healthy.
func (c *Candidate) Check(request *http.Request) error {
	errs := make([]error, 0, len(c.groups))
	for _, g := range c.groups {
		errs = append(errs, g.check(request))
	}
	return utilerrors.NewAggregate(errs)
}
