// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/internal/warning"
)

const (
	// deniedFor is how long a denial counts that is not repeated: informers retry more often.
	deniedFor = 2 * time.Minute
	// maxStatus is the length up to which the body of a refusal is read.
	maxStatus = 16 << 10
)

// denials records the collections that a term may not list or watch. Informers retry forever, and their controllers stay idle.
type denials struct {
	mu   sync.Mutex
	path map[string]*denial
}

type denial struct {
	since, last time.Duration
	message     string
}

// note keeps what a response says about the right to read a collection.
func (d *denials) note(now time.Duration, request *http.Request, response *http.Response) {
	if request.Method != http.MethodGet || !isCollection(request.URL.Path) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if response.StatusCode != http.StatusForbidden {
		delete(d.path, request.URL.Path)
		return
	}
	found := d.path[request.URL.Path]
	if found == nil || now-found.last > deniedFor {
		found = &denial{since: now, message: reasonOf(request, response)}
		if d.path == nil {
			d.path = map[string]*denial{}
		}
		d.path[request.URL.Path] = found
	}
	found.last = now
}

// longest returns the message of the denial that has been repeated for longest, if that is longer than a time.
func (d *denials) longest(now, than time.Duration) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var first *denial
	for _, each := range d.path {
		if now-each.last <= deniedFor && each.last-each.since > than && (first == nil || each.since < first.since) {
			first = each
		}
	}
	if first == nil {
		return ""
	}
	return first.message
}

// isCollection reports whether a path is that of a resource and not of one object: /api/v1/pods, /apis/apps/v1/namespaces/default/deployments.
func isCollection(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return false
	}
	return len(parts) == 1 || len(parts) == 3 && parts[0] == "namespaces"
}

// reasonOf returns the server's message, which names the user, the verb and the resource. The body stays readable.
func reasonOf(request *http.Request, response *http.Response) string {
	body := response.Body
	text, err := io.ReadAll(io.LimitReader(body, maxStatus))
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), body), body}
	if err == nil {
		status := &metav1.Status{}
		if _, _, err = scheme.Codecs.UniversalDeserializer().Decode(text, nil, status); err == nil && status.Message != "" {
			return status.Message
		}
	}
	return fmt.Sprintf("GET %s is forbidden", request.URL.Path)
}

// warn writes an Event about the Lease. Without the right to create Events the log and the health check remain.
func (g *group) warn(ctx context.Context, term *Term, note string) {
	logger := klog.FromContext(ctx).WithValues("group", g.Name)
	logger.Info("A leader is stuck", "reason", note)
	client, err := eventsclient.NewForConfig(term.Client())
	if err == nil {
		err = warning.Write(ctx, client, warning.Event{
			Regarding:  corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: g.Lease.Namespace, Name: g.Lease.Name},
			Controller: "annex.io/leadership", Instance: g.Name, Action: "Lead", Reason: "MissingRight", Note: note,
		})
	}
	if err != nil {
		logger.V(2).Info("Could not write an Event", "reason", err)
	}
}
