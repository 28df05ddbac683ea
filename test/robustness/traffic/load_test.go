// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/robustness/validate"
)

// TestWithoutFaultsNothingIsFound works on both kinds, through the front door.
func TestWithoutFaultsNothingIsFound(t *testing.T) {
	t.Parallel()
	server := framework.Start(t)
	for name, objects := range map[string]Objects{"claims": ClusterClaims(), "config maps": ConfigMaps("default")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := Start(t, Options{
				Seed: 1, Clients: 4, Keys: 4, Watchers: 2, Configs: []*rest.Config{server.Config, server.Config}, Objects: objects, Pause: time.Millisecond,
			})
			l.WaitFor(t, 300)
			l.Recovered(t, 10*time.Second)
			l.Verdict(t)
			if failed := l.Failed(); len(failed) > 0 {
				t.Errorf("%d requests failed, the first: %s", len(failed), failed[0])
			}
		})
	}
}

// TestLiesAreFound has a server's answers be changed on their way, and wants each change to be noticed.
func TestLiesAreFound(t *testing.T) {
	t.Parallel()
	server := framework.Start(t)
	for name, tc := range map[string]struct {
		lie  *lie
		want string
	}{
		"an event is lost":               {&lie{event: func(line []byte) [][]byte { return nil }}, "was not told of"},
		"an event comes twice":           {&lie{event: func(line []byte) [][]byte { return [][]byte{line, line} }}, "came twice"},
		"an event has another value":     {&lie{event: func(line []byte) [][]byte { return [][]byte{lied.ReplaceAll(line, []byte(`"value":"lied"`))} }}, `"lied"`},
		"a write is not made":            {&lie{method: http.MethodPatch}, "no order of the requests"},
		"a deletion is not made":         {&lie{method: http.MethodDelete}, "no order of the requests"},
		"a read shows what is no longer": {&lie{method: http.MethodGet}, "no order of the requests"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := rest.CopyConfig(server.Config)
			config.Wrap(func(via http.RoundTripper) http.RoundTripper {
				tc.lie.via, tc.lie.old = via, &sync.Map{}
				return tc.lie
			})
			seed := hash(name)
			l := Start(t, Options{Seed: seed, Clients: 3, Keys: 3, Watchers: 2, Configs: []*rest.Config{config}, Objects: ConfigMaps("default"), Pause: time.Millisecond})
			l.WaitFor(t, 150)
			l.Stop(t)
			found := strings.Join(l.Violations(), "\n")
			if !strings.Contains(found, tc.want) {
				t.Errorf("found %q, want something of %q", found, tc.want)
			}
		})
	}
}

var lied = regexp.MustCompile(`"value":"[^"]*"`)

// lie changes some of the answers.
type lie struct {
	via http.RoundTripper
	// event is what becomes of an event, and method is that of requests that are answered and not made.
	event  func([]byte) [][]byte
	method string
	old    *sync.Map

	mu    sync.Mutex
	count int
}

// WrappedRoundTripper is whom clients of the libraries ask to close connections.
func (l *lie) WrappedRoundTripper() http.RoundTripper { return l.via }

// due is true for some.
func (l *lie) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	return l.count%10 == 0
}

func (l *lie) RoundTrip(request *http.Request) (*http.Response, error) {
	switch {
	case request.URL.Query().Get("watch") == "true":
		response, err := l.via.RoundTrip(request)
		if err == nil && l.event != nil && response.StatusCode == http.StatusOK {
			response.Body = l.change(response.Body)
		}
		return response, err
	case request.Method != l.method || strings.Contains(request.URL.Path, "-end-"):
	case l.method == http.MethodGet:
		return l.stale(request)
	case l.due():
		return l.pretend(request)
	}
	return l.via.RoundTrip(request)
}

// stale answers with what was answered before.
func (l *lie) stale(request *http.Request) (*http.Response, error) {
	if old, ok := l.old.Load(request.URL.String()); ok && l.due() {
		return answer(request, old.([]byte)), nil
	}
	response, err := l.via.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	l.old.LoadOrStore(request.URL.String(), content)
	return answer(request, content), nil
}

// pretend answers as if a write had been made.
func (l *lie) pretend(request *http.Request) (*http.Response, error) {
	body, err := []byte(nil), error(nil)
	if request.Body != nil {
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
	}
	read, err := http.NewRequestWithContext(request.Context(), http.MethodGet, request.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := l.via.RoundTrip(read)
	if err != nil || response.StatusCode != http.StatusOK || request.Method == http.MethodDelete {
		return response, err
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return answer(request, lied.ReplaceAll(content, lied.Find(body))), nil
}

func answer(request *http.Request, content []byte) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Request: request, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(bytes.NewReader(content)), ContentLength: int64(len(content)),
	}
}

// change lies in a watch.
func (l *lie) change(from io.ReadCloser) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		defer func() { _ = from.Close() }()
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadBytes('\n')
			told := [][]byte{line}
			if bytes.Contains(line, []byte("load-")) && !bytes.Contains(line, []byte("-end-")) && l.due() {
				told = l.event(line)
			}
			for _, one := range told {
				if _, writeErr := writer.Write(one); writeErr != nil {
					return
				}
			}
			if err != nil {
				_ = writer.CloseWithError(err)
				return
			}
		}
	}()
	return reader
}

func TestGrowthIsFound(t *testing.T) {
	t.Parallel()
	number := 100
	l := &Load{Options: Options{Goroutines: map[string]func(context.Context) (int, error){
		"grows": func(context.Context) (int, error) { number += growth; return number, nil },
		"stays": func(context.Context) (int, error) { return 100, nil },
	}}}
	l.before = l.countGoroutines(t)
	if grown := l.grown(t); len(grown) > 0 {
		t.Errorf("found too early: %q", grown)
	}
	if grown := l.grown(t); len(grown) != 1 || !strings.HasPrefix(grown[0], "grows has more than 300 goroutines: after 0s: observed: 400") {
		t.Errorf("found %q, want that one grows", fmt.Sprint(grown))
	}
}

// TestStartingIsNoGrowth has a server that is not done with its start when the load begins.
func TestStartingIsNoGrowth(t *testing.T) {
	t.Parallel()
	number := 100
	l := &Load{Options: Options{Goroutines: map[string]func(context.Context) (int, error){
		"starts": func(context.Context) (int, error) { number = min(number+growth, 5*growth); return number, nil },
	}}}
	l.before = l.settled(t)
	if grown := l.grown(t); len(grown) > 0 {
		t.Errorf("what was started was taken for a leak: %q", grown)
	}
}

func TestWhatErrorsMean(t *testing.T) {
	t.Parallel()
	maps := schema.GroupResource{Resource: "configmaps"}
	for name, tc := range map[string]struct {
		err  error
		verb validate.Verb
		want validate.Outcome
	}{
		"a broken connection":         {errors.New("EOF"), validate.Patch, validate.Unknown},
		"an object that is not there": {apierrors.NewNotFound(maps, "a"), validate.Get, validate.NotFound},
		"a resource that is not":      {apierrors.NewGenericServerResponse(404, "get", maps, "", "", 0, true), validate.Get, validate.Refused},
		"an object that is there":     {apierrors.NewAlreadyExists(maps, "a"), validate.Create, validate.Exists},
		"a conflict":                  {apierrors.NewConflict(maps, "a", errors.New("changed")), validate.Update, validate.Conflict},
		"a timeout":                   {apierrors.NewTimeoutError("slow", 1), validate.Update, validate.Unknown},
		"a server error":              {apierrors.NewInternalError(errors.New("broken")), validate.Update, validate.Unknown},
		"a bad request":               {apierrors.NewBadRequest("what?"), validate.Update, validate.Unexpected},
		"no rights":                   {apierrors.NewForbidden(maps, "a", errors.New("no")), validate.Update, validate.Refused},
	} {
		if got := judge(tc.err, &validate.Operation{Verb: tc.verb, Name: "a"}); got != tc.want {
			t.Errorf("%s is %q, want %q", name, got, tc.want)
		}
	}
}
