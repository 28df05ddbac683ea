// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"crypto/sha512"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kube-annex/annex/server/featuregating/gates"
)

// published is one document of a server as clients see it. It is built when somebody asks for it or its hash, and kept compressed from
// when somebody has asked for it itself. Most documents are never read, and built ones take many times the memory.
type published struct {
	// name is the document's path below /openapi/v3/; empty for v2.
	name string
	// gated is what the document has of what is gated, or may have.
	gated gates.Gated
	// building is held while the document is built and encoded: it shares maps with the definitions, which each build changes.
	building *sync.Mutex
	build    func() (*gates.Document, error)
	// protobuf converts from JSON.
	protobuf func(json []byte) ([]byte, error)

	mu        sync.Mutex
	permitted sets.Set[string]
	// version names the features that the document does without.
	version *string
	// etag is empty until the document has been built.
	etag     string
	modified time.Time
	// forms are what has been asked for.
	forms map[form]compressed
}

// form is how a document is written.
type form int

const (
	asJSON form = iota
	asProtobuf
)

// show sets what is permitted, and tells whether that changes the document.
func (p *published) show(permitted sets.Set[string]) bool {
	version := strings.Join(p.gated.Without(permitted).Gates(), ",")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.version != nil && *p.version == version {
		return false
	}
	p.permitted, p.version, p.etag, p.forms = permitted, &version, "", nil
	return true
}

// hash returns what is the same for the same document.
func (p *published) hash() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.etag == "" {
		if _, err := p.encode(); err != nil {
			return "", err
		}
	}
	return p.etag, nil
}

// get returns the document in a form, with its hash and when it has become what it is.
func (p *published) get(as form) (compressed, string, time.Time, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kept, ok := p.forms[as]; ok {
		return kept, p.etag, p.modified, nil
	}
	body, err := p.encode()
	if err == nil && as == asProtobuf {
		body, err = p.protobuf(body)
	}
	if err != nil {
		return nil, "", time.Time{}, err
	}
	kept, err := compress(body)
	if err != nil {
		return nil, "", time.Time{}, err
	}
	if p.forms == nil {
		p.forms = map[form]compressed{}
	}
	p.forms[as] = kept
	return kept, p.etag, p.modified, nil
}

// encode builds the document anew, and notes its hash.
func (p *published) encode() ([]byte, error) {
	p.building.Lock()
	defer p.building.Unlock()
	built, err := p.build()
	if err != nil {
		return nil, err
	}
	body, err := built.Without(p.permitted)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if etag := fmt.Sprintf("%X", sha512.Sum512(body)); etag != p.etag {
		p.etag, p.modified, p.forms = etag, time.Now(), nil
	}
	return body, nil
}
