// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	featuresinstall "github.com/kube-annex/annex/apis/features/install"
	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

// paint is the value of the gated field in all writes of the tests; it is nowhere else.
const paint = "vermilion"

// last is the key that is written when a history is read, to find its end.
const last = "/last"

// history is what etcd tells of a feature and the widgets whose field it gates.
type history struct {
	decoder  runtime.Decoder
	feature  *v1alpha1.Feature
	coloured map[string]bool

	// states are those that the Feature has been in, and tasks the first ones that were seen to run in it, without repetitions.
	states []string
	// kept and bare count the writes of widgets with and without the field.
	kept, bare int
	// sweeps is how often ClearField was done.
	sweeps int
	// wrong is what must not be.
	wrong []string
}

// read replays all that has been stored below a prefix.
func read(t *testing.T, etcd *clientv3.Client, prefix string) *history {
	t.Helper()
	codecs := serializer.NewCodecFactory(resource.NewScheme(featuresinstall.Install))
	h := &history{decoder: codecs.UniversalDeserializer(), coloured: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end, err := etcd.Put(ctx, prefix+last, "")
	if err != nil {
		t.Fatal(err)
	}
	for response := range etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		if err := response.Err(); err != nil {
			t.Fatal(err)
		}
		for _, event := range response.Events {
			if event.Kv.ModRevision == end.Header.Revision {
				return h
			}
			h.take(t, strings.TrimPrefix(string(event.Kv.Key), prefix), event)
		}
	}
	t.Fatal("the history ended early")
	return nil
}

func (h *history) take(t *testing.T, key string, event *clientv3.Event) {
	t.Helper()
	switch {
	case key == "/features.k8s.io/features/"+server.Namespace+"/"+color:
		feature, _, err := h.decoder.Decode(event.Kv.Value, nil, nil)
		if err != nil {
			t.Fatalf("the Feature at revision %d: %v", event.Kv.ModRevision, err)
		}
		h.become(feature.(*v1alpha1.Feature), event.Kv.ModRevision)
	case strings.HasPrefix(key, "/"+server.WidgetResource.Group+"/"):
		delete(h.coloured, key)
		switch {
		case event.Type != clientv3.EventTypePut:
		case !bytes.Contains(event.Kv.Value, []byte(paint)):
			h.bare++
		default:
			h.kept++
			h.coloured[key] = true
			if !h.permitted() {
				h.wrong = append(h.wrong, fmt.Sprintf("%s was stored with the field at revision %d, when the Feature was %s", key, event.Kv.ModRevision, h.stand()))
			}
		}
	}
}

func (h *history) become(feature *v1alpha1.Feature, revision int64) {
	swept := h.first() == "ClearField"
	h.feature = feature
	swept = swept && feature.Status.State == v1alpha1.StateTurningOff && h.first() != "ClearField"
	if swept {
		h.sweeps++
		for key := range h.coloured {
			h.wrong = append(h.wrong, fmt.Sprintf("%s had the field when ClearField was done at revision %d", key, revision))
		}
	}
	if stand := h.stand(); stand != "" && (len(h.states) == 0 || h.states[len(h.states)-1] != stand) {
		h.states = append(h.states, stand)
	}
}

// first is the first task.
func (h *history) first() string {
	if h.feature == nil || len(h.feature.Status.Tasks) == 0 {
		return ""
	}
	return h.feature.Status.Tasks[0].Name
}

// stand is the state, with the first task.
func (h *history) stand() string {
	if h.feature == nil {
		return ""
	}
	state := string(h.feature.Status.State)
	if first := h.first(); first != "" {
		state += "/" + first
	}
	return state
}

func (h *history) permitted() bool {
	stand := h.stand()
	return stand == "On" || stand == "TurningOn/WaitForUses"
}

// transitions are the states alone.
func (h *history) transitions() string {
	var out []string
	for _, stand := range h.states {
		state, _, _ := strings.Cut(stand, "/")
		if len(out) == 0 || out[len(out)-1] != state {
			out = append(out, state)
		}
	}
	return strings.Join(out, " ")
}
