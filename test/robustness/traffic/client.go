// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

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

	"github.com/kube-annex/annex/test/robustness/validate"
)

// chances are how often a client chooses a verb.
var chances = []struct {
	verb  validate.Verb
	often int
}{
	{validate.Create, 4}, {validate.Update, 3}, {validate.Patch, 5}, {validate.Remove, 1}, {validate.RemoveOne, 1}, {validate.Get, 4}, {validate.List, 1}, {validate.Stale, 1},
}

func pick(random *rand.Rand) validate.Verb {
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
	return validate.Get
}

// client makes one request after the other.
type client struct {
	load    *Load
	number  int
	random  *rand.Rand
	servers []*server
	// at is the server that is asked next; last are objects as the client was shown them.
	at   int
	last map[string]validate.Item

	// What follows is guarded by the load's lock: all operations, and since when both have gone well.
	operations      []validate.Operation
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
		if o.Verb == validate.Update || o.Verb == validate.RemoveOne {
			known, ok := c.last[o.Name]
			if !ok {
				o.Verb, o.Value = validate.Get, ""
			}
			o.Version = known.Version
		}
		c.send(ctx, &o)
		c.note(o)
		pause := time.Duration(c.random.Int64N(int64(2*c.load.Pause) + 1))
		if o.Failed() {
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
func (c *client) next(n int) validate.Operation {
	o := validate.Operation{Client: c.number, Verb: pick(c.random), Name: c.load.names[c.random.IntN(len(c.load.names))]}
	switch o.Verb {
	case validate.Create, validate.Update, validate.Patch:
		o.Value = fmt.Sprintf("%x-%d-%d", c.load.Seed, c.number, n)
	case validate.List:
		o.Name = ""
	}
	return o
}

// send makes the request, once.
func (c *client) send(ctx context.Context, o *validate.Operation) {
	ctx, cancel := context.WithTimeout(ctx, c.load.RequestTimeout)
	defer cancel()
	s := c.servers[c.at%len(c.servers)]
	o.Server = s.name
	request, err := c.load.build(s.rest, o)
	o.Call = c.load.now()
	var content []byte
	if err == nil {
		result := request.MaxRetries(0).Do(ctx)
		if err = result.Error(); err == nil {
			content, err = result.Raw()
		}
	}
	o.Answer = c.load.now()
	if err == nil {
		o.Outcome = validate.Done
		if err = c.load.take(o, content); err == nil {
			return
		}
		// An answer was cut off.
		o.Outcome, o.Shown = validate.Unknown, validate.Item{}
	} else {
		o.Outcome = judge(err, o)
	}
	o.Err = err
	if o.Outcome == validate.Unknown {
		o.Answer = validate.Never
	}
}

// build makes the request of an operation.
func (l *Load) build(via *rest.RESTClient, o *validate.Operation) (*rest.Request, error) {
	padding := ""
	if l.Padding > 0 {
		padding = pad(o.Value, l.Padding)
	}
	collection := l.Objects.path()
	one := collection + "/" + o.Name
	var body []byte
	var err error
	var request *rest.Request
	switch o.Verb {
	case validate.Create:
		body, err = l.Objects.body(o.Name, o.Value, 0, padding)
		request = via.Post().AbsPath(collection).SetHeader("Content-Type", "application/json")
	case validate.Update:
		body, err = l.Objects.body(o.Name, o.Value, o.Version, padding)
		request = via.Put().AbsPath(one).SetHeader("Content-Type", "application/json")
	case validate.Patch:
		body, err = l.Objects.patch(o.Value, padding)
		request = via.Patch(types.MergePatchType).AbsPath(one)
	case validate.Remove, validate.RemoveOne:
		request = via.Delete().AbsPath(one).SetHeader("Content-Type", "application/json")
		if o.Verb == validate.RemoveOne {
			version := strconv.FormatInt(o.Version, 10)
			body, err = json.Marshal(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
		}
	case validate.Get:
		request = via.Get().AbsPath(one)
	case validate.Stale:
		request = via.Get().AbsPath(one).Param("resourceVersion", "0")
	case validate.List:
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
func (l *Load) take(o *validate.Operation, content []byte) (err error) {
	switch o.Verb {
	case validate.Remove, validate.RemoveOne:
		// It shows what is no more.
		return nil
	case validate.List:
		var items []validate.Item
		items, o.Listed, err = l.Objects.readList(content)
		o.Items = l.ours(items)
		return err
	}
	o.Shown, err = l.Objects.read(content)
	return err
}

// ours leaves out what is of others.
func (l *Load) ours(items []validate.Item) (kept []validate.Item) {
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
func (c *client) note(o validate.Operation) {
	switch {
	case o.Verb == validate.Stale, o.Verb == validate.List:
	case o.Outcome == validate.Done && o.Shown.Version != 0:
		c.last[o.Name] = o.Shown
	default:
		delete(c.last, o.Name)
	}
	c.load.mu.Lock()
	defer c.load.mu.Unlock()
	c.operations = append(c.operations, o)
	c.tries++
	if o.Failed() {
		c.failures, c.lastErr = c.failures+1, o.Err
		return
	}
	if o.Outcome == validate.Done && o.Verb.Writes() {
		c.wrote, c.newest = o.Call, max(c.newest, o.Shown.Version)
		c.load.writes++
	} else if !o.Verb.Writes() && o.Verb != validate.Stale {
		c.read = o.Call
	}
}

// judge says what an error means for the request.
func judge(err error, o *validate.Operation) validate.Outcome {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return validate.Unsent
	case !errors.As(err, &status):
		return validate.Unknown
	}
	said := status.Status()
	switch {
	case said.Code == http.StatusNotFound && said.Details != nil && said.Details.Name == o.Name && o.Name != "":
		return validate.NotFound
	case apierrors.IsAlreadyExists(err) && o.Verb == validate.Create:
		return validate.Exists
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return validate.Conflict
	case said.Code >= 500, said.Code == http.StatusTooManyRequests, said.Code == http.StatusRequestTimeout:
		return validate.Unknown
	case said.Code == http.StatusNotFound, said.Code == http.StatusUnauthorized, said.Code == http.StatusForbidden:
		// The server does not serve the resource yet, or does not know the client.
		return validate.Refused
	case strings.Contains(said.Message, "the client connection was closed"):
		return validate.Unknown
	}
	return validate.Unexpected
}
