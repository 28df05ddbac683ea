// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// frames is an HTTP/2 connection on which frames are sent as an attacker likes.
type frames struct {
	connection *tls.Conn
	framer     *http2.Framer
	settings   chan map[http2.SettingID]uint32
	closed     chan struct{}

	mu     sync.Mutex
	codes  map[string]int
	goaway http2.ErrCode
}

func newFrames(t *testing.T, address string, config *tls.Config) *frames {
	t.Helper()
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	connection, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	f := &frames{
		connection: connection.(*tls.Conn), framer: http2.NewFramer(connection, connection),
		settings: make(chan map[http2.SettingID]uint32, 1), closed: make(chan struct{}), codes: map[string]int{},
	}
	t.Cleanup(func() { _ = connection.Close() })
	if _, err := io.WriteString(connection, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := f.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	f.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	go f.read()
	return f
}

// read counts status codes until the connection is closed.
func (f *frames) read() {
	defer close(f.closed)
	for {
		frame, err := f.framer.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			values := map[http2.SettingID]uint32{}
			_ = frame.ForeachSetting(func(s http2.Setting) error {
				values[s.ID] = s.Val
				return nil
			})
			if !frame.IsAck() {
				f.settings <- values
			}
		case *http2.MetaHeadersFrame:
			f.mu.Lock()
			f.codes[frame.PseudoValue("status")]++
			f.mu.Unlock()
		case *http2.GoAwayFrame:
			f.mu.Lock()
			f.goaway = frame.ErrCode
			f.mu.Unlock()
		}
	}
}

// answered returns how many answers have come, by status code.
func (f *frames) answered() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	codes := map[string]int{}
	for code, n := range f.codes {
		codes[code] = n
	}
	return codes
}

func requestHeaders(method, path string, more ...string) []byte {
	block := &bytes.Buffer{}
	encoder := hpack.NewEncoder(block)
	fields := append([]string{":method", method, ":scheme", "https", ":authority", "a", ":path", path, "content-type", "application/json"}, more...)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return block.Bytes()
}

// floods send frames until they have sent so many, or the server has had enough.
var floods = map[string]func(f *frames) error{
	"requests that are reset at once": func(f *frames) error {
		block := requestHeaders(http.MethodGet, claimsPath)
		// The server has had enough once it is so many behind, which may take long on a machine where it is fast.
		for id := uint32(1); id < 1<<21; id += 2 {
			if err := f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: true}); err != nil {
				return err
			}
			if err := f.framer.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
				return err
			}
		}
		return nil
	},
	"requests that have the server reset them": func(f *frames) error {
		block := requestHeaders(http.MethodPost, claimsPath)
		for id := uint32(1); id < 10_000; id += 2 {
			if err := f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}); err != nil {
				return err
			}
			if err := f.framer.WriteWindowUpdate(id, 1<<31-1); err != nil { // more than a window can be
				return err
			}
		}
		return nil
	},
	"more requests than may be under way": func(f *frames) error {
		block := requestHeaders(http.MethodPost, claimsPath)
		for id := uint32(1); id < 4_000; id += 2 {
			if err := f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}); err != nil {
				return err
			}
		}
		return nil
	},
	"headers that go on and on": func(f *frames) error {
		if err := f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: requestHeaders(http.MethodGet, claimsPath), EndStream: true}); err != nil {
			return err
		}
		more := &bytes.Buffer{}
		encoder := hpack.NewEncoder(more)
		for i := range 100 {
			_ = encoder.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d", i), Value: strings.Repeat("a", 100), Sensitive: true})
		}
		for range 5_000 {
			if err := f.framer.WriteContinuation(1, false, more.Bytes()); err != nil {
				return err
			}
		}
		return nil
	},
	"headers without anything in them": func(f *frames) error {
		if err := f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: requestHeaders(http.MethodGet, claimsPath), EndStream: true}); err != nil {
			return err
		}
		for range 20_000 {
			if err := f.framer.WriteContinuation(1, false, nil); err != nil {
				return err
			}
		}
		return nil
	},
	"a header that unpacks": func(f *frames) error {
		block := &bytes.Buffer{}
		encoder := hpack.NewEncoder(block)
		_ = encoder.WriteField(hpack.HeaderField{Name: "x-large", Value: strings.Repeat("a", 3000)})
		first := requestHeaders(http.MethodGet, claimsPath)
		indexed := bytes.Repeat([]byte{0xbe}, 15_000) // the first entry of the dynamic table, again and again
		for id := uint32(1); id < 200; id += 2 {
			all := slices.Concat(first, block.Bytes(), indexed)
			if err := f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: all, EndHeaders: true, EndStream: true}); err != nil {
				return err
			}
		}
		return nil
	},
	"settings": func(f *frames) error {
		for range 20_000 {
			if err := f.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}); err != nil {
				return err
			}
		}
		return nil
	},
	"pings": func(f *frames) error {
		for range 20_000 {
			if err := f.framer.WritePing(false, [8]byte{}); err != nil {
				return err
			}
		}
		return nil
	},
	"data without anything in it": func(f *frames) error {
		if err := f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: requestHeaders(http.MethodPost, claimsPath), EndHeaders: true}); err != nil {
			return err
		}
		for range 20_000 {
			if err := f.framer.WriteData(1, false, nil); err != nil {
				return err
			}
		}
		return nil
	},
	"answers that nobody reads": func(f *frames) error {
		if err := f.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
			return err
		}
		block := requestHeaders(http.MethodGet, "/openapi/v2")
		for id := uint32(1); id < 200; id += 2 {
			if err := f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: true}); err != nil {
				return err
			}
		}
		return nil
	},
}

// TestHTTP2Floods has users and strangers send frames that cost a server more than them.
func TestHTTP2Floods(t *testing.T) {
	allowListOfClaims(t, plain, "flooder")
	allowListOfClaims(t, plain, "bystander")
	plain.wantLittleMemory(t, 200)
	for door, address := range plain.doors() {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			f := newFrames(t, address, plain.tls(t, pki.Pair{}))
			if got := (<-f.settings)[http2.SettingMaxConcurrentStreams]; got == 0 || got > 250 {
				t.Errorf("the server takes %d requests at a time, want a limit", got)
			}
			bystander := newSession(t, address, plain.tls(t, plain.user(t, "bystander")))
			for name, flood := range floods {
				for who, pair := range map[string]pki.Pair{"a user": plain.user(t, "flooder"), "a stranger": {}} {
					f := newFrames(t, address, plain.tls(t, pair))
					_ = f.connection.SetDeadline(time.Now().Add(2 * time.Second))
					err := flood(f)
					began := time.Now()
					if got := bystander.get(t, claimsPath, ""); got.code != http.StatusOK || time.Since(began) > 10*time.Second {
						t.Errorf("%s by %s (%v): somebody else got %d after %s", name, who, err, got.code, time.Since(began))
					}
					_ = f.connection.Close()
				}
			}
		})
	}
}

// TestHTTP2FloodsEndTheConnection makes sure that the server, and not this test, ends what must end.
func TestHTTP2FloodsEndTheConnection(t *testing.T) {
	for door, address := range plain.doors() {
		for _, name := range []string{"requests that are reset at once", "headers that go on and on"} {
			t.Run(name+" at "+door, func(t *testing.T) {
				t.Parallel()
				f := newFrames(t, address, plain.tls(t, plain.user(t, "flooder")))
				err := floods[name](f)
				select {
				case <-f.closed:
				case <-time.After(patience):
					t.Errorf("the connection is still there (%v); answers %v", err, f.answered())
				}
			})
		}
	}
}
