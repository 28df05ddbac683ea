// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package bodies

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// grace is how long a body may take in any case.
	grace = 5 * time.Second
	// bytesPerSecond is what has to come in the time after that: a link of 128 kbit/s.
	bytesPerSecond = 16 << 10
)

// inTime is a body that has to come at a certain speed from when the first byte of it is asked for. Where there is nothing that could
// stop waiting, such as in a test without a connection, it takes any time.
type inTime struct {
	io.ReadCloser
	connection *http.ResponseController

	mu    sync.Mutex
	timer *time.Timer
	began time.Time
	read  int
	over  bool
}

func newInTime(w http.ResponseWriter, body io.ReadCloser) *inTime {
	return &inTime{ReadCloser: body, connection: http.NewResponseController(w)}
}

// Read implements io.Reader.
func (b *inTime) Read(p []byte) (int, error) {
	b.start()
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.stop()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += n
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, tooSlow()
	}
	return n, err
}

// start begins to watch the clock, which costs little where all of the body is there.
func (b *inTime) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer == nil && !b.over {
		b.began = time.Now()
		b.timer = time.AfterFunc(grace, b.judge)
	}
}

// judge ends the reading if it is too late for what has come, and else looks again when it would be.
func (b *inTime) judge() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	if left := time.Until(b.began.Add(grace + time.Duration(b.read)*time.Second/bytesPerSecond)); left > 0 {
		b.timer.Reset(left)
		return
	}
	_ = b.connection.SetReadDeadline(time.Unix(1, 0)) // long ago
}

// stop ends the watch: all has been read, or nobody reads any more.
func (b *inTime) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.timer != nil {
		b.timer.Stop()
	}
}

func tooSlow() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
		Message: fmt.Sprintf("the body of the request comes too slowly; it has %s and a second more for each %d KiB", grace, bytesPerSecond>>10),
	}}
}
