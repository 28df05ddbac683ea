// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"sync"
	"sync/atomic"

	basegate "k8s.io/component-base/featuregate"
)

// verdict is a value of a gate, or none.
type verdict int32

const (
	unknown verdict = iota
	disabled
	enabled
)

func verdictOf(value bool) verdict {
	if value {
		return enabled
	}
	return disabled
}

// atomicVerdict is a verdict that is read and written without a lock.
type atomicVerdict struct{ value atomic.Int32 }

func (v *atomicVerdict) load() verdict    { return verdict(v.value.Load()) }
func (v *atomicVerdict) store(to verdict) { v.value.Store(int32(to)) }

// over is the verdict, or the given value where there is none.
func (v *atomicVerdict) over(value bool) bool {
	if known := v.load(); known != unknown {
		return known == enabled
	}
	return value
}

// use is one gate that the program has asked for, or that follows the API.
type use struct {
	name basegate.Feature
	// seen is what the program was told last; unknown if it has not asked.
	seen atomicVerdict
	// api is the value from the API; nil for gates that do not follow it.
	api *atomicVerdict
	// next is another use in the same bucket.
	next *use
}

// uses is what a program has asked its gates. It is a hash table that only grows, so that finding takes no lock, and less time than a
// lookup in a map: Enabled is called in the innermost loops.
type uses struct {
	buckets [1024]atomic.Pointer[use]
	// changed has room for one signal: a use is new or has another value.
	changed chan struct{}

	mu   sync.Mutex
	list []*use
}

func newUses() *uses { return &uses{changed: make(chan struct{}, 1)} }

func (u *uses) bucket(name basegate.Feature) *atomic.Pointer[use] {
	return &u.buckets[hash(name)%uint64(len(u.buckets))]
}

// find returns the use of this name, or nil.
func (u *uses) find(name basegate.Feature) *use {
	found := u.bucket(name).Load()
	for found != nil && found.name != name {
		found = found.next
	}
	return found
}

// add returns the use of this name, which is new unless somebody else was quicker.
func (u *uses) add(name basegate.Feature, api *atomicVerdict) *use {
	u.mu.Lock()
	defer u.mu.Unlock()
	if known := u.find(name); known != nil {
		return known
	}
	bucket := u.bucket(name)
	added := &use{name: name, api: api, next: bucket.Load()}
	bucket.Store(added)
	u.list = append(u.list, added)
	return added
}

// all returns every use, in the order in which they were added.
func (u *uses) all() []*use {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.list[:len(u.list):len(u.list)]
}

func (u *uses) see(use *use, value bool) {
	use.seen.store(verdictOf(value))
	select {
	case u.changed <- struct{}{}:
	default:
	}
}

// hash mixes the length with the first and the last eight bytes. Names that have these in common only make a bucket longer.
func hash(name basegate.Feature) uint64 {
	h := uint64(len(name))
	if n := len(name); n >= 8 {
		h += word(name[:8])*0x9e3779b97f4a7c15 + word(name[n-8:])*0xc2b2ae3d27d4eb4f
	} else {
		for i := range n {
			h = (h ^ uint64(name[i])) * 0x9e3779b97f4a7c15
		}
	}
	return h >> 54 // the upper ten bits depend on all others
}

func word(s basegate.Feature) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
