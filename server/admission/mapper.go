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

// learningMapper knows kinds that appear while the server runs as soon as they are asked for. That of client-go is told when to look
// again, which a kube-apiserver does every 30 s. Nothing is asked, and nothing kept, before a policy with parameters is there.
type learningMapper struct {
	*restmapper.DeferredDiscoveryRESTMapper

	mu    sync.Mutex
	asked time.Time
}

func newLearningMapper(client discovery.DiscoveryInterface) *learningMapper {
	return &learningMapper{DeferredDiscoveryRESTMapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))}
}

// RESTMapping implements meta.RESTMapper.
func (m *learningMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.forgetAfter(knownKindsRecheck)
	mapping, err := m.DeferredDiscoveryRESTMapper.RESTMapping(kind, versions...)
	if err != nil && m.forgetAfter(unknownKindRecheck) {
		mapping, err = m.DeferredDiscoveryRESTMapper.RESTMapping(kind, versions...)
	}
	return mapping, err
}

// forgetAfter has all be asked again if it was for the last time that long ago.
func (m *learningMapper) forgetAfter(age time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.asked) < age {
		return false
	}
	m.asked = time.Now()
	m.Reset()
	return true
}
