// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// chances are how often a client chooses a verb.
var chances = []struct {
	verb  verb
	often int
}{
	{create, 4}, {update, 3}, {patch, 5}, {remove, 1}, {removeOne, 1}, {get, 4}, {list, 1}, {stale, 1},
}

func pick(random *rand.Rand) verb {
	all := 0
	for _, choice := range chances {
		all += choice.often
	}
	left := random.IntN(all)
	for _, choice := range chances {
		if left -= choice.often; left < 0 {
			return choice.verb
		}
	}
	return get
}

// client makes one request after the other.
type client struct {
	load    *Load
	number  int
	random  *rand.Rand
	servers []*server
	// at is the server that is asked next; last are objects as the client was shown them.
	at   int
	last map[string]item

	// What follows is guarded by the load's lock: all operations, and since when both have gone well.
	operations      []operation
	wrote, read     int64
	newest          int64
	lastErr         error
	failures, tries int
}

// run works until it is told to stop, and then ends the request it is at.
func (c *client) run(ctx context.Context, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		default:
		}
		o := c.next(n)
		if o.verb == update || o.verb == removeOne {
			known, ok := c.last[o.name]
			if !ok {
				o.verb, o.value = get, ""
			}
			o.version = known.Version
		}
		c.send(ctx, &o)
		c.note(o)
		pause := time.Duration(c.random.Int64N(int64(2*c.load.Pause) + 1))
		if o.failed() {
			c.at = (c.at + 1) % len(c.servers)
			pause = 20*time.Millisecond + time.Duration(c.random.IntN(60))*time.Millisecond
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-stop:
		}
		timer.Stop()
	}
}

// next says what to do.
func (c *client) next(n int) operation {
	o := operation{client: c.number, verb: pick(c.random), name: c.load.names[c.random.IntN(len(c.load.names))]}
	switch o.verb {
	case create, update, patch:
		o.value = fmt.Sprintf("%x-%d-%d", c.load.Seed, c.number, n)
	case list:
		o.name = ""
	}
	return o
}

// send makes the request, once.
func (c *client) send(ctx context.Context, o *operation) {
	ctx, cancel := context.WithTimeout(ctx, c.load.RequestTimeout)
	defer cancel()
	s := c.servers[c.at%len(c.servers)]
	o.server = s.name
	request, err := c.load.build(s.rest, o)
	o.call = c.load.now()
	var content []byte
	if err == nil {
		result := request.MaxRetries(0).Do(ctx)
		if err = result.Error(); err == nil {
			content, err = result.Raw()
		}
	}
	o.answer = c.load.now()
	if err == nil {
		o.outcome = done
		if err = c.load.take(o, content); err == nil {
			return
		}
		// An answer was cut off.
		o.outcome, o.shown = unknown, item{}
	} else {
		o.outcome = judge(err, o)
	}
	o.err = err
	if o.outcome == unknown {
		o.answer = never
	}
}

// build makes the request of an operation.
func (l *Load) build(via *rest.RESTClient, o *operation) (*rest.Request, error) {
	padding := ""
	if l.Padding > 0 {
		padding = pad(o.value, l.Padding)
	}
	collection := l.Objects.path()
	one := collection + "/" + o.name
	var body []byte
	var err error
	var request *rest.Request
	switch o.verb {
	case create:
		body, err = l.Objects.body(o.name, o.value, 0, padding)
		request = via.Post().AbsPath(collection).SetHeader("Content-Type", "application/json")
	case update:
		body, err = l.Objects.body(o.name, o.value, o.version, padding)
		request = via.Put().AbsPath(one).SetHeader("Content-Type", "application/json")
	case patch:
		body, err = l.Objects.patch(o.value, padding)
		request = via.Patch(types.MergePatchType).AbsPath(one)
	case remove, removeOne:
		request = via.Delete().AbsPath(one).SetHeader("Content-Type", "application/json")
		if o.verb == removeOne {
			version := strconv.FormatInt(o.version, 10)
			body, err = json.Marshal(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
		}
	case get:
		request = via.Get().AbsPath(one)
	case stale:
		request = via.Get().AbsPath(one).Param("resourceVersion", "0")
	case list:
		request = via.Get().AbsPath(collection)
	}
	if body != nil {
		request.Body(body)
	}
	return request.SetHeader("Accept", "application/json"), err
}

// pad makes text of a length that cannot be compressed to much less, and differs from value to value.
func pad(value string, length int) string {
	random := rand.New(rand.NewPCG(uint64(len(value)), hash(value)))
	text := make([]byte, length)
	for i := range text {
		text[i] = byte('!' + random.IntN('~'-'!'))
	}
	return string(text)
}

func hash(text string) uint64 {
	sum := uint64(14695981039346656037)
	for _, b := range []byte(text) {
		sum = (sum ^ uint64(b)) * 1099511628211
	}
	return sum
}

// take notes what an answer shows.
func (l *Load) take(o *operation, content []byte) (err error) {
	switch o.verb {
	case remove, removeOne:
		// It shows what is no more.
		return nil
	case list:
		var items []item
		items, o.listed, err = l.Objects.readList(content)
		o.items = l.ours(items)
		return err
	}
	o.shown, err = l.Objects.read(content)
	return err
}

// ours leaves out what is of others.
func (l *Load) ours(items []item) (kept []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, found := range items {
		if l.known[found.Name] {
			kept = append(kept, found)
		}
	}
	return kept
}

// note keeps the operation and what the client has learnt.
func (c *client) note(o operation) {
	switch {
	case o.verb == stale, o.verb == list:
	case o.outcome == done && o.shown.Version != 0:
		c.last[o.name] = o.shown
	default:
		delete(c.last, o.name)
	}
	c.load.mu.Lock()
	defer c.load.mu.Unlock()
	c.operations = append(c.operations, o)
	c.tries++
	if o.failed() {
		c.failures, c.lastErr = c.failures+1, o.err
		return
	}
	if o.outcome == done && o.verb.writes() {
		c.wrote, c.newest = o.call, max(c.newest, o.shown.Version)
		c.load.writes++
	} else if !o.verb.writes() && o.verb != stale {
		c.read = o.call
	}
}

// judge says what an error means for the request.
func judge(err error, o *operation) outcome {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return unsent
	case !errors.As(err, &status):
		return unknown
	}
	said := status.Status()
	switch {
	case said.Code == http.StatusNotFound && said.Details != nil && said.Details.Name == o.name && o.name != "":
		return notFound
	case apierrors.IsAlreadyExists(err) && o.verb == create:
		return exists
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return conflict
	case said.Code >= 500, said.Code == http.StatusTooManyRequests, said.Code == http.StatusRequestTimeout:
		return unknown
	case said.Code == http.StatusNotFound, said.Code == http.StatusUnauthorized, said.Code == http.StatusForbidden:
		// The server does not serve the resource yet, or does not know the client.
		return refused
	case strings.Contains(said.Message, "the client connection was closed"):
		return unknown
	}
	return unexpected
}
