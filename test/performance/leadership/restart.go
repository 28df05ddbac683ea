// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/test/robustness/singlewriter"
)

const (
	rowTransition     = "a term ends to the next one's caches synced, same process, ms"
	rowRestart        = "the same by exiting and being started again, ms"
	rowMemoryFirst    = "memory (RSS) in the first terms of a process, MiB"
	rowMemory         = "memory in the last terms of a process that lives on, MiB"
	rowMemoryRestart  = "memory of processes that were started again, MiB"
	rowHeap           = "heap after garbage collection in the last terms of a process that lives on, MiB"
	rowHeapRestart    = "the same in processes that were started again, MiB"
	restartsNamespace = "restarts"
	valueSize         = 1000
)

// restart has one process lose and regain a Lease, and another one exit and be started again, with the same work under it.
func restart(ctx context.Context, s settings, at server, results *table) error {
	progress("%d terms of a process that lives on, and of one that is started again, at %s", s.restarts, at.name)
	if err := preload(ctx, s, at); err != nil {
		return err
	}
	if err := livesOn(ctx, s, at, results); err != nil {
		return err
	}
	return startsAgain(ctx, s, at, results)
}

func livesOn(ctx context.Context, s settings, at server, results *table) error {
	w, err := newWorker(s, at, "lives", restartsNamespace, 1, "-caches")
	if err != nil {
		return err
	}
	if err = w.Start(); err != nil {
		return err
	}
	defer w.Kill()
	for i := range s.restarts {
		if i > 0 {
			w.Tell("off group-0")
			w.Tell("on group-0")
		}
		memory, err := oneTerm(ctx, w, i+1, rowTransition, at, results)
		if err != nil {
			return err
		}
		switch {
		case i < s.restarts/10:
			results.addValue(rowMemoryFirst, at, memory)
		case i >= s.restarts-s.restarts/10:
			results.addValue(rowMemory, at, memory)
			if err := addHeap(ctx, w, rowHeap, at, results); err != nil {
				return err
			}
		}
	}
	return w.Stop(time.Minute)
}

func startsAgain(ctx context.Context, s settings, at server, results *table) error {
	w, err := newWorker(s, at, "again", restartsNamespace, 1, "-caches")
	if err != nil {
		return err
	}
	for i := range s.restarts {
		if err = w.Start(); err != nil {
			return err
		}
		memory, err := oneTerm(ctx, w, i+1, rowRestart, at, results)
		if err != nil {
			w.Kill()
			return err
		}
		results.addValue(rowMemoryRestart, at, memory)
		if err := addHeap(ctx, w, rowHeapRestart, at, results); err != nil {
			return err
		}
		if err := w.Stop(time.Minute); err != nil {
			return err
		}
	}
	return nil
}

// oneTerm waits until the n-th term works, notes how long after the one before that was, lets it be for a moment, and returns
// how much memory the process has.
func oneTerm(ctx context.Context, w *singlewriter.Worker, n int, row string, at server, results *table) (float64, error) {
	deadline := time.Now().Add(time.Minute)
	for {
		intervals, _, err := w.Report()
		if err != nil {
			return 0, err
		}
		if len(intervals) == n && intervals[n-1].To == math.MaxInt64 {
			if n > 1 {
				results.add(row, at, time.Duration(intervals[n-1].From-intervals[n-2].To))
			}
			if err := pause(ctx, 500*time.Millisecond); err != nil {
				return 0, err
			}
			return resident(w.Pid())
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("term %d did not begin within a minute", n)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

func addHeap(ctx context.Context, w *singlewriter.Worker, row string, at server, results *table) error {
	bytes, err := w.Heap(ctx)
	results.addValue(row, at, float64(bytes)/(1<<20))
	return err
}

// preload makes what the terms have in their caches.
func preload(ctx context.Context, s settings, at server) error {
	client, err := namespace(ctx, at, restartsNamespace)
	if err != nil {
		return err
	}
	for i := range s.objects {
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("object-%d", i)}, Data: map[string]string{"value": strings.Repeat(".", valueSize)}}
		if _, err := client.CoreV1().ConfigMaps(restartsNamespace).Create(ctx, configMap, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// namespace makes one and returns a client.
func namespace(ctx context.Context, at server, name string) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(at.client(&tap{}))
	if err != nil {
		return nil, err
	}
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err = client.CoreV1().Namespaces().Create(ctx, made, metav1.CreateOptions{})
	return client, err
}

var residentLine = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

// resident is the memory of a process in MiB.
func resident(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	found := residentLine.FindSubmatch(status)
	if found == nil {
		return 0, errors.New("the kernel does not tell the memory of a process")
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	return kib / 1024, err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
