// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// altered is a watch whose changes pass through a function. Other than apimachinery's filter it ends when it is stopped, whether or not
// somebody still reads.
type altered struct {
	watch.Interface
	result   chan watch.Event
	stopped  chan struct{}
	stopOnce sync.Once
}

func alter(changes watch.Interface, change func(watch.Event) watch.Event) watch.Interface {
	a := &altered{Interface: changes, result: make(chan watch.Event), stopped: make(chan struct{})}
	go a.run(change)
	return a
}

func (a *altered) run(change func(watch.Event) watch.Event) {
	defer close(a.result)
	for event := range a.Interface.ResultChan() {
		select {
		case a.result <- change(event):
		case <-a.stopped:
			return
		}
	}
}

// ResultChan implements watch.Interface.
func (a *altered) ResultChan() <-chan watch.Event { return a.result }

// Stop implements watch.Interface.
func (a *altered) Stop() {
	a.stopOnce.Do(func() { close(a.stopped) })
	a.Interface.Stop()
}
