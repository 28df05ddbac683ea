// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/replicas"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// TestFileDescriptorsRunOut opens more connections than the server may have files open. It says so and lives, whoever has a connection
// is served, and when the others go, everybody is.
func TestFileDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	seed, _ := seeded(t)
	limit := quickOr(256, 1024)
	u := startUp(t, fmt.Sprintf("ulimit -n %d", limit))
	at := address(u.config)
	l := traffic.Start(t, traffic.Options{
		Seed: seed, Objects: traffic.ConfigMaps("default"), Configs: []*rest.Config{u.config}, Clients: 4, Keys: 4, RequestTimeout: 5 * time.Second,
		Goroutines: map[string]func(context.Context) (int, error){"annex": traffic.Goroutines(u.config)},
	})
	l.WaitFor(t, 10)
	for round := range quickOr(1, 5) {
		before, complaints := u.descriptors(), strings.Count(u.process.Log(), "too many open files")
		var open []net.Conn
		leave := func() {
			for _, connection := range open {
				_ = connection.Close()
			}
			open = nil
		}
		t.Cleanup(leave)
		for range 2 * limit {
			connection, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, connection)
		}
		poll.Eventually(t, patience, "the server complains", func(context.Context) error {
			if strings.Count(u.process.Log(), "too many open files") <= complaints {
				return fmt.Errorf("it has %d of %d descriptors in use", u.descriptors(), limit)
			}
			return u.alive()
		})
		// Clients that have a connection keep it.
		l.WaitFor(t, 20)
		during := u.descriptors()
		leave()
		poll.Eventually(t, patience, "newcomers are served", func(ctx context.Context) error {
			via, err := connect(u.config)
			if err != nil {
				return err
			}
			defer via.CloseIdleConnections()
			return replicas.Ask(ctx, via, u.config.Host+collections[1])
		})
		took := l.Recovered(t, patience)
		if err := u.alive(); err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: %d descriptors before, %d of %d while %d connections were open; all clients had written and read %s after they had gone",
			round, before, during, limit, 2*limit, took.Round(time.Millisecond))
	}
	if failed := l.Failed(); len(failed) > 0 {
		t.Errorf("%d requests failed of clients that had their connections, the first: %s", len(failed), failed[0])
	}
	l.Verdict(t)
}

// TestManyLargeListsAtOnce has a user list all of a large collection many times at once, on a server that is told to keep its memory small.
// It queues the lists and answers them or tells to come again; it does not grow with their number, and others are served.
func TestManyLargeListsAtOnce(t *testing.T) {
	t.Parallel()
	const size = 64 << 10
	seed, _ := seeded(t)
	objects, lists, rounds := quickOr(100, 500), 40, quickOr(1, 3)
	u := startUp(t, "export GOMEMLIMIT="+quickOr("200MiB", "500MiB"))
	u.allow("users", everyKind)
	u.makeNamespace("large")
	content := make([]byte, size*3/4)
	for i := range objects {
		if _, err := rand.Read(content); err != nil {
			t.Fatal(err)
		}
		configMap := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d", i)},
			Data:       map[string]string{"value": base64.StdEncoding.EncodeToString(content)},
		}
		if _, err := u.client.CoreV1().ConfigMaps("large").Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	l := traffic.Start(t, traffic.Options{
		Seed: seed, Objects: traffic.ClusterClaims(), Configs: []*rest.Config{u.config}, Clients: 2, Keys: 2, Watchers: 1, RequestTimeout: patience,
		Goroutines: map[string]func(context.Context) (int, error){"annex": traffic.Goroutines(u.config)},
	})
	l.WaitFor(t, 10)
	config := u.as("lister", "users")
	alone := u.resident()
	most, counts := alone, map[int]int{}
	for range rounds {
		var running sync.WaitGroup
		var mu sync.Mutex
		for range lists {
			running.Go(func() {
				code, err := listAll(t.Context(), config)
				mu.Lock()
				defer mu.Unlock()
				counts[code]++
				if err != nil {
					t.Errorf("a list of everything: %v", err)
				}
			})
		}
		ended := make(chan struct{})
		go func() { defer close(ended); running.Wait() }()
		poll.Eventually(t, 5*patience, "all lists are answered", func(context.Context) error {
			most = max(most, u.resident())
			select {
			case <-ended:
				return nil
			default:
				return errors.Join(errors.New("they are not"), u.alive())
			}
		})
	}
	l.Recovered(t, patience)
	if failed := l.Failed(); len(failed) > 0 {
		t.Errorf("%d requests of others failed, the first: %s", len(failed), failed[0])
	}
	l.Verdict(t)
	t.Logf("%d × %d lists of %d MiB at once: %v; %d MiB resident before, %d at most", rounds, lists, objects*size>>20, counts, alone, most)
	if bound := 600 + 8*(objects*size>>20); most > bound {
		t.Errorf("it took %d MiB, want at most %d", most, bound)
	}
}

// listAll reads a list of all large objects to its end. Being told to come again is no error, and neither is an end after the time
// that a request may take.
func listAll(ctx context.Context, config *rest.Config) (int, error) {
	via, err := connect(config)
	if err != nil {
		return 0, err
	}
	defer via.CloseIdleConnections()
	const requestTimeout = time.Minute // as servers have it
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/namespaces/large/configmaps", nil)
	if err != nil {
		return 0, err
	}
	response, err := via.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	if err != nil && time.Since(began) > requestTimeout {
		// A server with many at once may not get to the end of each in time.
		return http.StatusGatewayTimeout, nil
	}
	if code := response.StatusCode; err == nil && code != http.StatusOK && code != http.StatusTooManyRequests {
		err = errors.New(response.Status)
	}
	return response.StatusCode, err
}
