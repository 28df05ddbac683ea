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
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/internal/workloop"
)

// Lengths of the parts of a holder's identity: all of it is to fit into a field manager, which has 128 bytes.
const (
	maxHost   = 63
	maxOwner  = 32
	uidLength = 10
)

// owners is what Options.Owner may be: a part of the names of Leases, and of identities, whose parts are set apart by "_" and ".".
var owners = regexp.MustCompile(fmt.Sprintf("^[a-z0-9]{0,%d}$", maxOwner))

// activeUIDs has the uids of electors in this process whose work has not ended.
var activeUIDs sync.Map

// stuckCheckInterval is the interval at which the metric of stuck groups is updated.
const stuckCheckInterval = time.Second

// Elector acquires the Leases of groups, and runs the groups that it leads, in one process.
type Elector struct {
	options  Options
	leases   coordinationclient.LeasesGetter
	groups   []*group
	replicas *replicas
	mux      Mux
	// terms counts the terms that the elector has tried to begin.
	terms atomic.Int64

	identity sync.Mutex
	// uid is unique to the process; formerUIDs turned out to be in use by another process.
	uid        string
	formerUIDs []string

	stop   context.CancelCauseFunc
	ending sync.Once
	ended  chan error
}

// Mux is what handlers of terms are put on; the mux of a generic apiserver is one.
type Mux interface {
	Handle(path string, handler http.Handler)
	Unregister(path string)
}

// New returns an elector for the groups. It starts nothing; the error lists every mistake.
func New(options Options, groups ...Group) (*Elector, error) {
	if err := validate(options, groups); err != nil {
		return nil, err
	}
	if options.Host == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("read the host name: %w; set Options.Host", err)
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
	// Leases are few and must not wait for a limiter that runnables share.
	election := rest.CopyConfig(options.Client)
	election.QPS, election.RateLimiter = -1, nil
	rest.AddUserAgent(election, "leader-election")
	leases, err := coordinationclient.NewForConfig(election)
	if err != nil {
		return nil, fmt.Errorf("build the client for Leases: %w", err)
	}
	c := &Elector{options: options, leases: leases, ended: make(chan error, 1)}
	c.uid = c.newUID()
	for _, named := range groups {
		g := &group{
			Group: named, options: options, clock: options.Clock, elector: c, done: make(chan struct{}),
			metrics: groupMetrics{Metrics: options.Metrics, name: named.Name}, status: newStatus(options.Clock, options.Timings),
		}
		if options.DetectLeaks {
			g.leaks = newLeaks(g)
		}
		c.groups = append(c.groups, g)
	}
	if options.Replicas.Name != "" && !options.ExitOnLoss {
		c.replicas = newReplicas(c)
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
	if (options.Replicas.Name == "") != (options.Replicas.Namespace == "") {
		errs = append(errs, errors.New("of Options.Replicas only the name or the namespace is set; set both or none"))
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

// UseMux sets the mux for the handlers of terms. It is called before Run.
func (e *Elector) UseMux(mux Mux) { e.mux = mux }

// Run acquires Leases and leads groups until the context ends; then it stops all groups and releases their Leases. It returns an error
// only when a group could not be stopped and Options.Exit has returned. It can be called once.
func (e *Elector) Run(ctx context.Context) error {
	e.markAlive()
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	e.stop = stop
	defer stop(errStopped)
	defer context.AfterFunc(ctx, func() { stop(errStopped) })()

	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var beside, all sync.WaitGroup
	defer beside.Wait()
	defer stopBackground()
	for _, g := range e.groups {
		g.metrics.start()
	}
	for _, g := range e.groups {
		if g.leaks != nil {
			beside.Go(func() { g.leaks.run(background) })
		}
		all.Go(func() {
			defer close(g.done)
			g.run(running)
		})
	}
	beside.Go(func() { e.watchStuck(background) })
	if e.replicas != nil {
		beside.Go(func() { e.replicas.run(background) })
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		all.Wait()
		<-running.Done()
	}()
	select {
	case <-finished:
		e.markDead()
		return nil
	case err := <-e.ended:
		// Options.Exit has returned, so the other groups still have to stop.
		stop(err)
		wait := time.NewTimer(e.options.Timings.StopTimeout)
		defer wait.Stop()
		select {
		case <-finished:
		case <-wait.C:
		}
		return err
	}
}

func (e *Elector) watchStuck(ctx context.Context) {
	// warned has the term of the last Event of each group: a term gets at most one.
	warned := map[*group]*Term{}
	for ctx.Err() == nil {
		for _, g := range e.groups {
			status, term, reason := g.status.snapshot(g.Name)
			g.metrics.setStuck(reason)
			if reason == stuckReading && warned[g] != term {
				warned[g] = term
				g.warn(ctx, term, status.Stuck)
			}
		}
		_ = workloop.Pause(ctx, clock.RealClock{}, stuckCheckInterval)
	}
}

// newUID returns a new uid from the kernel's random source: copies of a virtual machine share all other state.
func (e *Elector) newUID() string {
	uid := strings.ToLower(rand.Text()[:uidLength])
	if e.options.Owner != "" {
		return e.options.Owner + "." + uid
	}
	return uid
}

func (e *Elector) markAlive() {
	e.identity.Lock()
	defer e.identity.Unlock()
	activeUIDs.Store(e.uid, true)
}

// markDead is called when all work of the elector has ended.
func (e *Elector) markDead() {
	e.identity.Lock()
	defer e.identity.Unlock()
	for _, uid := range append(e.formerUIDs, e.uid) {
		activeUIDs.Delete(uid)
	}
}

// nextHolder returns the identity of another term.
func (e *Elector) nextHolder() string {
	e.identity.Lock()
	defer e.identity.Unlock()
	return fmt.Sprintf("%s_%s_%d", e.options.Host, e.uid, e.terms.Add(1))
}

// rotateIdentity replaces the identity of the process, which another process uses as well.
func (e *Elector) rotateIdentity() {
	e.identity.Lock()
	defer e.identity.Unlock()
	e.formerUIDs = append(e.formerUIDs, e.uid)
	e.uid = e.newUID()
	activeUIDs.Store(e.uid, true)
}

// checkDuplicate returns an error if the holder is another process with a former identity of this one.
func (e *Elector) checkDuplicate(holder string) error {
	e.identity.Lock()
	defer e.identity.Unlock()
	if slices.Contains(e.formerUIDs, uidOf(holder)) {
		return fmt.Errorf("%w %s; run no copies of a running process, and edit no Lease that is held", errDuplicate, holder)
	}
	return nil
}

// workHasEnded reports whether the holder's work is known to have ended: terms of this elector, whose groups run one at a time, and of a former
// process with the same owner. Another elector of this process may have the same owner and be at work.
func (e *Elector) workHasEnded(holder string) bool {
	e.identity.Lock()
	defer e.identity.Unlock()
	uid := uidOf(holder)
	owner, _, owned := cutLast(uid, ".")
	_, atWork := activeUIDs.Load(uid)
	return uid == e.uid || owned && owner == e.options.Owner && owner != "" && !atWork
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
func (e *Elector) Statuses() []Status {
	out := make([]Status, 0, len(e.groups))
	for _, g := range e.groups {
		status, _, _ := g.status.snapshot(g.Name)
		out = append(out, status)
	}
	return out
}

// ServeHTTP writes the role of every group in plain text, one per line, with status 500 while a group is not healthy. It is meant for
// /healthz/leadership.
func (e *Elector) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	err := e.Check(request)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
	for _, status := range e.Statuses() {
		_, _ = fmt.Fprintln(w, status)
	}
	if e.replicas != nil {
		_, _ = fmt.Fprintln(w, e.replicas)
	}
	if err != nil {
		_, _ = fmt.Fprintln(w, firstLine(err))
	}
}

// Name makes the elector a health check.
func (e *Elector) Name() string { return "leadership" }

// Check returns an error that lists the groups that are stuck, cannot use their Lease, or have a term with a failing check. Followers are
// healthy.
func (e *Elector) Check(request *http.Request) error {
	errs := make([]error, 0, len(e.groups))
	for _, g := range e.groups {
		errs = append(errs, g.check(request))
	}
	return utilerrors.NewAggregate(errs)
}
