// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kube-annex/annex/test/framework"
)

const (
	// fast is how long anything about discovery may take while servers misbehave. It is milliseconds, and up to half a second where OpenAPI
	// is merged anew; the machine may be busy with much else. With Kubernetes' own aggregator a server that hangs makes it a minute.
	fast = 30 * time.Second
	// startsWithin is how much longer a start may take while servers misbehave than without. There, it is minutes.
	startsWithin = 30 * time.Second
	// most is what may be on the heap of the whole process, whatever servers send.
	most = 512 << 20
)

// aggregatedDiscovery is what clients accept that want everything at once.
const aggregatedDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// misbehaviours are by the names of servers. Of those that are silent it takes ten seconds to know.
var misbehaviours = map[string]struct {
	serve  func(*backend, http.ResponseWriter, *http.Request)
	silent bool
}{
	"hangs": {(*backend).hang, true}, "hangs-too": {(*backend).hang, true}, "trickles": {(*backend).trickle, true},
	"floods": {(*backend).flood, false}, "hangs-up": {(*backend).hangUp, false}, "fails": {(*backend).fail, false},
}

// TestMisbehavingServers makes servers hang, send byte after byte or without end, hang up and fail, all at once and repeatedly asked to be looked
// at. Nobody but those who want something of them must notice, also if the control plane starts while they do so.
func TestMisbehavingServers(t *testing.T) {
	t.Parallel()
	began := time.Now()
	w := startWorld(t)
	startup := time.Since(began)
	ca := authority(t)
	backends := map[string]*backend{}
	for name := range misbehaviours {
		backends[name] = w.start(t, name, ca)
	}
	healthy := w.start(t, "healthy", ca)
	misbehave := func() {
		for name, b := range backends {
			b.set(misbehaviours[name].serve)
		}
	}
	for _, b := range backends {
		w.wantAvailable(t, "v1."+b.group(), apiregistrationv1.ConditionTrue, "")
	}
	w.wantAvailable(t, "v1."+healthy.group(), apiregistrationv1.ConditionTrue, "")

	misbehave()
	stopProbing := w.probe(t)
	var asking sync.WaitGroup
	w.wantRequestsToEnd(t, &asking, "hangs.example.com")
	for range 3 {
		for _, b := range backends {
			w.touch(t, "v1."+b.group())
		}
	}
	w.wantOthersToGoOn(t)
	for name, b := range backends {
		if misbehaviours[name].silent {
			continue
		}
		w.wantAvailable(t, "v1."+b.group(), apiregistrationv1.ConditionFalse, "")
		if got := get(t, w.Config, "/apis/"+b.group()+"/v1/things"); got.status != http.StatusServiceUnavailable || got.took > fast {
			t.Errorf("%s, of which it is known: got %d after %s, want 503 at once", b.name, got.status, got.took)
		}
	}
	asking.Wait()
	stopProbing()

	for _, b := range backends {
		b.set((*backend).healthy)
	}
	for _, b := range backends {
		// It is looked at every 5 s at least; what is under way has to end first.
		if took := w.wantAvailable(t, "v1."+b.group(), apiregistrationv1.ConditionTrue, ""); took > 5*time.Second+fast {
			t.Errorf("%s: it was found to be back after %s", b.name, took)
		}
		w.wantThings(t, b.group(), "Current")
	}

	// What was available is taken to be so at the next start.
	misbehave()
	w.Stop(t)
	began = time.Now()
	w.Resume(t)
	if took := time.Since(began); took > startup+startsWithin {
		t.Errorf("a start took %s while servers misbehaved, and %s without", took, startup)
	}
	stopProbing = w.probe(t)
	w.wantThings(t, healthy.group(), "Current")
	w.wantOthersToGoOn(t)
	stopProbing()
}

// probe asks for what must not depend on servers behind APIServices, until the returned function is called.
func (w *world) probe(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var probing sync.WaitGroup
	questions := [][]string{{"/apis"}, {"/apis", "Accept", aggregatedDiscovery}, {"/openapi/v2"}, {"/openapi/v3"}, {"/openapi/v3/api/v1"}, {"/readyz"}, {"/livez"}}
	for _, question := range questions {
		probing.Go(func() {
			for ctx.Err() == nil {
				got, err := tryGet(t, w.Config, question[0], question[1:]...)
				if ctx.Err() != nil {
					return
				}
				if err != nil || got.status != http.StatusOK || got.took > fast {
					t.Errorf("%s: got %d %v after %s", question, got.status, err, got.took)
				}
				select {
				case <-ctx.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	probing.Go(func() {
		for ctx.Err() == nil {
			heap := runtime.MemStats{}
			runtime.ReadMemStats(&heap)
			if heap.HeapAlloc > most {
				t.Errorf("there are %d MiB on the heap", heap.HeapAlloc>>20)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return func() {
		cancel()
		probing.Wait()
	}
}

// wantRequestsToEnd asks a server that hangs, of which that is not known yet.
func (w *world) wantRequestsToEnd(t *testing.T, asking *sync.WaitGroup, group string) {
	t.Helper()
	for path, within := range map[string]time.Duration{
		// It is short for discovery, since clients ask for it before all else.
		"/apis/" + group + "/v1":                        5 * time.Second,
		"/apis/" + group + "/v1/things?timeout=1s":      time.Second,
		"/apis/" + group + "/v1/things/a?timeout=500ms": time.Second / 2,
	} {
		asking.Go(func() {
			got, err := tryGet(t, w.Config, path)
			if err != nil || got.status != http.StatusGatewayTimeout || got.took > within+fast {
				t.Errorf("%s: got %d %v %s after %s, want 504 after %s", path, got.status, err, got.body, got.took, within)
			}
		})
	}
}

// wantOthersToGoOn adds a kind, which has to be served and to be in discovery.
func (w *world) wantOthersToGoOn(t *testing.T) {
	t.Helper()
	group := fmt.Sprintf("new%d.example.com", time.Now().UnixNano())
	began := time.Now()
	define(t, w.APIExtensions, group, "it is new")
	w.wantThings(t, group, "Current")
	framework.Eventually(t, patience, func() error {
		if got := get(t, w.Config, "/apis/"+group+"/v1/gadgets"); got.status != http.StatusOK {
			return fmt.Errorf("objects of a new kind: got %d %s", got.status, got.body)
		}
		return nil
	})
	if took := time.Since(began); took > fast {
		t.Errorf("a new kind was served after %s", took)
	}
}

// define makes a kind of custom resources.
func define(t *testing.T, client definitionsClient, group, description string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	made, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "gadgets", Singular: "gadget", Kind: "Gadget", ShortNames: []string{"gg"}, Categories: []string{"all"},
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: schemaOf(description)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func schemaOf(description string) *apiextensionsv1.CustomResourceValidation {
	return &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer", Description: description}},
	}}
}
