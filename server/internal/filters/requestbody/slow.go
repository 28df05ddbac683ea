// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package requestbody

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
	// grace is the time that any body may take.
	grace = 5 * time.Second
	// bytesPerSecond is the speed that is required after that: a link of 128 kbit/s.
	bytesPerSecond = 16 << 10
)

// inTime is a body that the client has to send at a certain speed. Only time in which a Read waits for the client counts: the reader may
// pause, as a proxy does whose backend does not read. Without a connection, as in some tests, there is no limit.
type inTime struct {
	io.ReadCloser
	connection *http.ResponseController

	mu    sync.Mutex
	timer *time.Timer
	// began is when the current Read began to wait; zero while there is none.
	began time.Time
	// waited is the time that earlier Reads have waited, and read the bytes that they have returned.
	waited time.Duration
	read   int
}

func newInTime(w http.ResponseWriter, body io.ReadCloser) *inTime {
	return &inTime{ReadCloser: body, connection: http.NewResponseController(w)}
}

// Read implements io.Reader.
func (b *inTime) Read(p []byte) (int, error) {
	b.start()
	n, err := b.ReadCloser.Read(p)
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += n
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, tooSlow()
	}
	return n, err
}

// start starts the timer for the rest of the time that the client has.
func (b *inTime) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.began = time.Now()
	if b.timer == nil {
		b.timer = time.AfterFunc(b.left(), b.expire)
	} else {
		b.timer.Reset(b.left())
	}
}

// expire ends a Read that has waited for too long.
func (b *inTime) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.began.IsZero() && time.Since(b.began) >= b.left() {
		_ = b.connection.SetReadDeadline(time.Unix(1, 0)) // long ago
	}
}

// left returns how long the client may keep Reads waiting after those that have returned.
func (b *inTime) left() time.Duration {
	return grace + time.Duration(b.read)*time.Second/bytesPerSecond - b.waited
}

// stop stops the timer: no Read waits any more.
func (b *inTime) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.began.IsZero() {
		return
	}
	b.waited += time.Since(b.began)
	b.began = time.Time{}
	b.timer.Stop()
}

func tooSlow() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
		Message: fmt.Sprintf("the body of the request comes too slowly; it has %s and a second more for each %d KiB", grace, bytesPerSecond>>10),
	}}
}
