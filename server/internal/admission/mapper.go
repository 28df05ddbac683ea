// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

const (
	// unknownKindRecheck is how soon it is asked again whether a kind has appeared, and knownKindsRecheck whether one has changed.
	unknownKindRecheck = 500 * time.Millisecond
	knownKindsRecheck  = 30 * time.Second
)

// learningMapper finds new kinds with the first request for them. That of client-go needs Reset, which kube-apiserver calls every 30 s. It
// sends no requests before the first policy with parameters.
type learningMapper struct {
	*restmapper.DeferredDiscoveryRESTMapper

	mu        sync.Mutex
	lastReset time.Time
}

func newLearningMapper(client discovery.DiscoveryInterface) *learningMapper {
	return &learningMapper{DeferredDiscoveryRESTMapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))}
}

// RESTMapping implements meta.RESTMapper.
func (m *learningMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.resetAfter(knownKindsRecheck)
	mapping, err := m.DeferredDiscoveryRESTMapper.RESTMapping(kind, versions...)
	if err != nil && m.resetAfter(unknownKindRecheck) {
		mapping, err = m.DeferredDiscoveryRESTMapper.RESTMapping(kind, versions...)
	}
	return mapping, err
}

// resetAfter drops the cache if it is older than age, and reports whether it did.
func (m *learningMapper) resetAfter(age time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.lastReset) < age {
		return false
	}
	m.lastReset = time.Now()
	m.Reset()
	return true
}
