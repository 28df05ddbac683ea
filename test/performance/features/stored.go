// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
)

// Where objects are in etcd.
const (
	featuresPrefix = "/annex.io/registry/features.k8s.io/features/"
	balloonsPrefix = "/annex.io/registry/node.k8s.io/nodeballoons/"
	leasesPrefix   = "/registry/coordination.k8s.io/leases/"
)

// decoder reads what is stored.
func decoder() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{coordinationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return serializer.NewCodecFactory(scheme).UniversalDeserializer(), nil
}

// reader knows the Features and the Leases of reporters as they are stored.
type reader struct {
	decoder runtime.Decoder

	mu       sync.Mutex
	features map[string]*v1alpha1.Feature
	// changed is replaced and closed with each change of a Feature.
	changed chan struct{}
	// observed is up to which revision a reporter has answered, by the key of its Lease, and answered when that first was at least the
	// question.
	observed map[string]int64
	answered map[string]time.Time
	question int64
	err      error
}

func newReader() (*reader, error) {
	d, err := decoder()
	return &reader{
		decoder: d, features: map[string]*v1alpha1.Feature{}, changed: make(chan struct{}),
		observed: map[string]int64{}, answered: map[string]time.Time{},
	}, err
}

// seeFeature takes a write of a Feature.
func (r *reader) seeFeature(w write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := w.key[strings.LastIndex(w.key, "/")+1:]
	feature := &v1alpha1.Feature{}
	if !w.deleted {
		if _, _, err := r.decoder.Decode(w.value, nil, feature); err != nil {
			r.err = fmt.Errorf("read %s: %w", w.key, err)
			return
		}
	}
	feature.ResourceVersion = strconv.FormatInt(w.revision, 10)
	r.features[name] = feature
	close(r.changed)
	r.changed = make(chan struct{})
}

// seeLease takes a write of a Lease.
func (r *reader) seeLease(w write) {
	if w.deleted {
		return
	}
	lease := &coordinationv1.Lease{}
	_, _, err := r.decoder.Decode(w.value, nil, lease)
	observed := int64(0)
	if text := lease.Annotations[featuregate.AnnotationObserved]; text != "" && err == nil {
		observed, err = strconv.ParseInt(text, 10, 64)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.err = fmt.Errorf("read %s: %w", w.key, err)
		return
	}
	if lease.Labels[featuregate.LabelNamespace] != reportersNamespace || observed == 0 {
		return
	}
	r.observed[w.key] = observed
	if _, known := r.answered[w.key]; !known && r.question > 0 && observed >= r.question {
		r.answered[w.key] = w.at
	}
}

// ask has answers to a question noted from now on; some may have come already.
func (r *reader) ask(question int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.question, r.answered = question, map[string]time.Time{}
	for key, observed := range r.observed {
		if observed >= question {
			r.answered[key] = time.Now()
		}
	}
}

// present is how many reporters have said what they observed.
func (r *reader) present() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.observed), r.err
}

// answers returns when answers came.
func (r *reader) answers() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]time.Time, 0, len(r.answered))
	for _, at := range r.answered {
		out = append(out, at)
	}
	return out
}
