// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// caller is somebody who asks the extension apiserver for the same again and again.
type caller struct {
	name   string
	client *versioned.Clientset

	mu      sync.Mutex
	answers []answer
}

// answer is what a caller got.
type answer struct {
	asked, answered time.Time
	code            int
	err             error
}

// ask makes one request, which is not repeated.
func (c *caller) ask(ctx context.Context) answer {
	a := answer{asked: time.Now()}
	a.err = c.client.MulticlusterV1alpha1().RESTClient().Get().Resource("clusterclaims").MaxRetries(0).Timeout(patience).Do(ctx).Error()
	a.answered = time.Now()
	a.code = http.StatusOK
	var status apierrors.APIStatus
	switch {
	case errors.As(a.err, &status):
		a.code = int(status.Status().Code)
	case a.err != nil:
		a.code = 0
	}
	c.mu.Lock()
	c.answers = append(c.answers, a)
	c.mu.Unlock()
	return a
}

// leave closes the caller's connections.
func (c *caller) leave() {
	utilnet.CloseIdleConnectionsFor(c.client.MulticlusterV1alpha1().RESTClient().(*rest.RESTClient).Client.Transport)
}

// asking has callers ask until it is called off.
func asking(t *testing.T, every time.Duration, callers ...*caller) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, c := range callers {
		running.Go(func() {
			ticker := time.NewTicker(every)
			defer ticker.Stop()
			for ctx.Err() == nil {
				c.ask(context.WithoutCancel(ctx))
				select {
				case <-ticker.C:
				case <-ctx.Done():
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

// between are the answers to what was asked in a span of time, and answered in it: what counts is when the server decides.
func (c *caller) between(from, to time.Time) (found []answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.answers {
		if !a.asked.Before(from) && a.answered.Before(to) {
			found = append(found, a)
		}
	}
	return found
}

func newCaller(t *testing.T, name string, config *rest.Config) *caller {
	t.Helper()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &caller{name: name, client: client}
}

// token returns a configuration of a service account.
func (u *up) token(account string) *rest.Config {
	u.t.Helper()
	request := &authenticationv1.TokenRequest{}
	accounts := u.client.CoreV1().ServiceAccounts("default")
	poll.Eventually(u.t, patience, "there is a service account", func(ctx context.Context) error {
		_, err := accounts.Get(ctx, account, metav1.GetOptions{})
		return err
	})
	made, err := accounts.CreateToken(u.t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(u.config)
	config.BearerToken = made.Status.Token
	return config
}

// TestTheHostIsAway kills the host of an extension apiserver. Callers whom it knows are served as long as the host's answers hold, and
// refused in plain words after that, as all others are at once. Administrators, for whom no host is asked, go on, and so do watches. When
// the host is back all is as before, and the extension apiserver was not restarted.
func TestTheHostIsAway(t *testing.T) {
	t.Parallel()
	seed, _ := seeded(t)
	ttl, away := quickOr(3*time.Second, 2*time.Minute), quickOr(6*time.Second, 5*time.Minute)
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	u := startUp(t, "", "--secure-port="+strconv.Itoa(port))
	u.allow("users", everyKind)
	u.allow("system:serviceaccounts", everyKind)
	e := newExtension(t, "extension", filepath.Join(u.dir, "pki", "extension.kubeconfig"), "--data-dir="+t.TempDir(),
		"--authorization-webhook-cache-authorized-ttl="+ttl.String(), "--authentication-token-webhook-cache-ttl="+ttl.String())
	e.start()
	e.waitReady()
	pid := e.process.Pid()

	known, account := newCaller(t, "a known user", e.to(u.as("known", "users"))), newCaller(t, "a known service account", e.to(u.token("default")))
	unknown, forged := newCaller(t, "a user nobody has seen", e.to(u.as("unknown", "users"))), newCaller(t, "a token nobody has seen", e.to(u.token("default")))
	nobody := newCaller(t, "nobody", e.to(rest.AnonymousClientConfig(u.config)))
	l := traffic.Start(t, traffic.Options{
		Seed: seed, Objects: traffic.ClusterClaims(), Configs: []*rest.Config{e.to(u.config)}, Clients: 4, Keys: 4, Pause: quickOr(5*time.Millisecond, 50*time.Millisecond),
		Goroutines: map[string]func(context.Context) (int, error){"extension": traffic.Goroutines(e.to(u.config))},
	})
	l.WaitFor(t, 10)

	// What the host has said just before it goes holds for a TTL. On a machine with too much to do it may say it too slowly.
	var first time.Time
	poll.Eventually(t, patience, "the host has said it just before", func(ctx context.Context) error {
		if !first.IsZero() && time.Since(first) < 2*ttl {
			return errors.New("what it has said before may still hold")
		}
		first = time.Now()
		for _, c := range []*caller{known, account} {
			if a := c.ask(ctx); a.code != http.StatusOK {
				return fmt.Errorf("%s: %w", c.name, a.err)
			}
		}
		if took := time.Since(first); took > ttl/4 {
			return fmt.Errorf("it took %s", took)
		}
		return nil
	})
	u.process.Kill()
	gone := time.Now()
	stop := asking(t, 100*time.Millisecond, known, account, unknown, forged, nobody)
	lastly := gone.Add(away)
	poll.Eventually(t, away+patience, "the host is away long enough", func(context.Context) error {
		if time.Now().Before(lastly) {
			return errors.New("it is not")
		}
		return nil
	})
	l.WaitFor(t, 5)
	u.start()
	u.waitReady()
	back := time.Now()
	for _, c := range []*caller{known, account, unknown, forged} {
		took := poll.Eventually(t, patience, c.name+" is served again", func(context.Context) error {
			if answers := c.between(back, time.Now()); len(answers) == 0 || answers[len(answers)-1].code != http.StatusOK {
				return errors.New("not yet")
			}
			return nil
		})
		t.Logf("%s is served %s after the host is back", c.name, took.Round(10*time.Millisecond))
	}
	stop()
	for _, c := range []*caller{known, account, unknown, forged, nobody} {
		c.leave()
	}

	for _, c := range []*caller{known, account} {
		c.wants(t, gone, first.Add(ttl-time.Second/10), http.StatusOK)
		c.wants(t, gone.Add(ttl), lastly, http.StatusServiceUnavailable, http.StatusUnauthorized)
	}
	unknown.wants(t, gone, lastly, http.StatusServiceUnavailable)
	forged.wants(t, gone, lastly, http.StatusUnauthorized)
	nobody.wants(t, gone, lastly, http.StatusUnauthorized)
	if e.process.Pid() != pid || e.alive() != nil {
		t.Error("the extension apiserver was restarted")
	}
	l.Recovered(t, patience)
	l.Verdict(t)

	// What it follows of the host is followed again.
	namespace := "after-the-host"
	u.makeNamespace(namespace)
	admin := newCaller(t, "an administrator", e.to(u.config)).client
	poll.Eventually(t, patience, "a Feature is created in a new namespace", func(ctx context.Context) error {
		_, err := admin.FeaturesV1alpha1().Features(namespace).Create(ctx, &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "After"}}, metav1.CreateOptions{})
		return err
	})
}

// wants checks the codes of all answers to what was asked in a span of time.
func (c *caller) wants(t *testing.T, from, to time.Time, codes ...int) {
	t.Helper()
	answers := c.between(from, to)
	if len(answers) == 0 {
		t.Errorf("%s asked for nothing between %s and %s", c.name, from, to)
	}
	counts, slowest := map[int]int{}, time.Duration(0)
	for _, a := range answers {
		counts[a.code]++
		slowest = max(slowest, a.answered.Sub(a.asked))
		wanted := false
		for _, code := range codes {
			wanted = wanted || a.code == code
		}
		if !wanted {
			t.Errorf("%s got %d %s after the host had gone, want one of %d: %v", c.name, a.code, a.asked.Sub(from), codes, a.err)
			return
		}
	}
	t.Logf("%s: %s, the slowest after %s", c.name, fmt.Sprint(counts), slowest.Round(time.Millisecond))
}
