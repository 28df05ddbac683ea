// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// answering is a hub that answers everything alike.
func answering(t *testing.T, code int, body string) (client *Client, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	client, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, asked
}

func TestWhatTheHubAnswers(t *testing.T) {
	t.Parallel()
	status := func(reason string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `","message":"so it is","code":CODE}`
	}
	for name, tc := range map[string]struct {
		code int
		body string
		want string
		away bool
	}{
		"no rights":            {http.StatusForbidden, status("Forbidden"), "annex-clusterset-member", false},
		"no credentials":       {http.StatusUnauthorized, status("Unauthorized"), "--clusterset-hub-kubeconfig", false},
		"no Annex":             {http.StatusNotFound, status("NotFound"), "register Annex there", false},
		"invalid":              {http.StatusUnprocessableEntity, status("Invalid"), "refuses: so it is", false},
		"a bad request":        {http.StatusBadRequest, status("BadRequest"), "refuses: so it is", false},
		"too many requests":    {http.StatusTooManyRequests, status("TooManyRequests"), "does not answer", true},
		"a request timed out":  {http.StatusRequestTimeout, status("Timeout"), "does not answer", true},
		"overloaded":           {http.StatusInternalServerError, status("InternalError"), "does not answer", true},
		"Annex is away":        {http.StatusServiceUnavailable, status("ServiceUnavailable"), "does not answer", true},
		"something else there": {http.StatusBadGateway, "<html>", "does not answer", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := answering(t, tc.code, strings.ReplaceAll(tc.body, "CODE", strconv.Itoa(tc.code)))
			err := client.Reserve(t.Context(), Membership{Set: "fleet", ID: "a", Cluster: "u", Claim: "c"}, false)
			away := (*AwayError)(nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) || errors.As(err, &away) != tc.away {
				t.Errorf("got %v, want %q, away %t", err, tc.want, tc.away)
			}
		})
	}
}

func TestTheHubIsAway(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	client, err := NewClient(&rest.Config{Host: "https://" + host})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Of(t.Context(), "u")
	if away := (*AwayError)(nil); !errors.As(err, &away) || !strings.Contains(err.Error(), "the hub at https://"+host) {
		t.Errorf("got %v, want that the hub at %s is away", err, host)
	}
}

func TestOneAsksAHubThatIsAway(t *testing.T) {
	t.Parallel()
	client, asked := answering(t, http.StatusServiceUnavailable, "")
	now := time.Now()
	client.circuit.now = func() time.Time { return now }
	ask := func() error {
		_, err := client.Of(t.Context(), "u")
		return err
	}
	if err := ask(); err == nil {
		t.Fatal("no error")
	}
	before := asked.Load()
	if err := ask(); err == nil || asked.Load() != before {
		t.Errorf("%v; the hub was asked again at once", err)
	}
	now = now.Add(coolDown)
	if err := ask(); err == nil || asked.Load() == before {
		t.Errorf("%v; the hub was not asked again", err)
	}
	// While one finds out, the others are told what is known.
	c := &circuit{now: func() time.Time { return now }}
	c.leave(&AwayError{Host: "h", Err: errors.New("no route")})
	now = now.Add(coolDown)
	if first, second := c.enter(), c.enter(); first != nil || second == nil {
		t.Errorf("the first gets %v, the second %v; want the first to ask", first, second)
	}
	c.leave(nil)
	if err := c.enter(); err != nil {
		t.Errorf("the hub is back: %v", err)
	}
}

func TestACallerThatIsGoneSaysNothingAboutTheHub(t *testing.T) {
	t.Parallel()
	client, _ := answering(t, http.StatusServiceUnavailable, "")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Of(gone, "u"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the caller is gone", err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if _, err := client.Of(late, "u"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the caller's time is over", err)
	}
	if err := client.circuit.enter(); err != nil {
		t.Errorf("the hub counts as away: %v", err)
	}
}

func TestTheHubIsReachedThroughTheProxyOfItsConfiguration(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host == "hub.example.com" {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(proxy.Close)
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	client, err := NewClient(&rest.Config{Host: "http://hub.example.com", Proxy: http.ProxyURL(address)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if _, err := client.Of(t.Context(), "u"); err == nil || asked.Load() == 0 {
		t.Errorf("got %v; the proxy was asked %d times", err, asked.Load())
	}
}

func TestTheKubeconfigOfTheHub(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct{ path, want string }{
		"missing":        {filepath.Join(dir, "none"), "no such file"},
		"a directory":    {dir, "is a directory"},
		"empty":          {write("empty", ""), "cannot be used"},
		"not YAML":       {write("junk", "\x00\x01"), "cannot be used"},
		"bad authority":  {write("authority", kubeconfig("certificate-authority-data: AAAA")), "cannot be used"},
		"missing pieces": {write("pieces", kubeconfig("certificate-authority: "+filepath.Join(dir, "no.crt"))), "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := (&Options{Kubeconfig: tc.path}).Validate()
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), "--clusterset-hub-kubeconfig") || !strings.Contains(errs[0].Error(), tc.want) {
				t.Errorf("got %v, want one error with the flag and %q", errs, tc.want)
			}
		})
	}
	if errs := (&Options{}).Validate(); len(errs) != 0 {
		t.Errorf("no hub: %v", errs)
	}
	good := &Options{Kubeconfig: write("good", kubeconfig("insecure-skip-tls-verify: true"))}
	if errs := good.Validate(); len(errs) != 0 {
		t.Errorf("a good one: %v", errs)
	}
}

func kubeconfig(cluster string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: hub\ncontexts: [{name: hub, context: {cluster: hub, user: hub}}]\n" +
		"users: [{name: hub, user: {token: secret}}]\nclusters:\n- name: hub\n  cluster:\n    server: https://hub.example.com\n    " + cluster + "\n"
}
