// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	// conversionDelay is between the charge for an object and its storage. It is shorter than --resource-quota-sync-period.
	conversionDelay = 2 * time.Second
	// slots is how many objects of a slowly converted kind a quota allows.
	slots = 2
)

// startConversion starts the conversion webhook of a world. Conversions into v1, the stored version, are slow.
func (w *world) startConversion(t testing.TB, dir string) {
	t.Helper()
	directory, err := pki.Open(filepath.Join(dir, "conversion"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := directory.Authority("conversion-ca", "conversion-ca")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Serving("conversion", loopback)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(convert))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	w.conversion = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"},
		"clientConfig":             map[string]any{"url": server.URL, "caBundle": base64.StdEncoding.EncodeToString(authority.CertPEM())},
	}}
}

// convert changes the version of objects and nothing else.
func convert(w http.ResponseWriter, r *http.Request) {
	review := &apiextensionsv1.ConversionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "not a ConversionReview", http.StatusBadRequest)
		return
	}
	if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1") {
		poll.Pause(r.Context(), conversionDelay)
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw.Raw, &obj.Object); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		obj.SetAPIVersion(review.Request.DesiredAPIVersion)
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: obj})
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// converting has creators compete for the few objects that a quota allows, each of which is stored long after it was charged.
func (s *story) converting(ctx context.Context) error {
	namespace, err := s.namespace(ctx, "")
	if err != nil {
		return err
	}
	kind, plural := "Slow"+strings.ReplaceAll(s.name, "-", ""), prefix+"slow-"+s.name
	of := schema.GroupVersionResource{Group: group, Version: "v2", Resource: plural}
	wanted := definitionOf(plural, kind)
	setServed(wanted, true, true)
	_ = unstructured.SetNestedMap(wanted.Object, s.conversion, "spec", "conversion")
	definition, _, err := s.create(ctx, definitions, wanted)
	if err != nil {
		return err
	}
	s.ledger.keepIf(definitions, definition, nil)
	s.later(definitions, definition)
	if err := s.served(ctx, of); err != nil {
		return err
	}
	hard := map[string]any{"count/" + plural + "." + group: fmt.Sprint(slots), "count/leases.coordination.k8s.io": "0"}
	quota, _, err := s.create(ctx, quotas, described(quotas, "ResourceQuota", namespace, "quota", map[string]any{"spec": map[string]any{"hard": hard}}))
	if err != nil {
		return err
	}
	s.ledger.keepIf(quotas, quota, nil)
	if err := s.limited(ctx, namespace, samples()[3]); err != nil {
		return err
	}
	// A controller that does not know the kind yet asks again after some time, and others are to be killed meanwhile.
	err = poll.Until(ctx, patience, func(ctx context.Context) error {
		current, err := s.get(ctx, quotas, namespace, quota.GetName())
		if err == nil && len(amounts(current, "status", "used")) < len(hard) {
			err = fmt.Errorf("the quota of %s is not counted: %v", namespace, current.Object["status"])
		}
		return err
	})
	if err != nil {
		return err
	}
	for turn := range 3 {
		made, err := s.competeUnder(ctx, of, kind, namespace, turn)
		if err != nil {
			return err
		}
		s.pause(ctx)
		for _, object := range made {
			if turn == 2 {
				break
			}
			s.ledger.forget(idOf(object.of, object.obj))
			if err := s.remove(ctx, object.of, object.obj, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// competeUnder lets creators compete, in the first turn under one leader that is counting.
func (s *story) competeUnder(ctx context.Context, of schema.GroupVersionResource, kind, namespace string, turn int) ([]leftover, error) {
	if turn > 0 {
		return s.compete(ctx, of, kind, namespace, turn)
	}
	s.calm.RLock()
	defer s.calm.RUnlock()
	hard := map[string]any{"count/leases.coordination.k8s.io": "0"}
	last, _, err := s.create(ctx, quotas, described(quotas, "ResourceQuota", namespace, "last", map[string]any{"spec": map[string]any{"hard": hard}}))
	if err != nil {
		return nil, err
	}
	s.ledger.keepIf(quotas, last, nil)
	err = poll.Until(ctx, patience, func(ctx context.Context) error {
		current, err := s.get(ctx, quotas, namespace, last.GetName())
		if err == nil && len(amounts(current, "status", "hard")) == 0 {
			err = errors.New("no controller has counted")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.compete(ctx, of, kind, namespace, turn)
}

// compete has each creator try for a while to create one object.
func (s *story) compete(ctx context.Context, of schema.GroupVersionResource, kind, namespace string, turn int) (made []leftover, err error) {
	var creating sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	end := time.Now().Add(conversionDelay + 500*time.Millisecond)
	for creator := range 2 * slots {
		own := s.beside()
		creating.Go(func() {
			for try := 0; try == 0 || time.Now().Before(end); try++ {
				obj := described(of, kind, namespace, fmt.Sprintf("o-%d-%d-%d", turn, creator, try), nil)
				created, unsure, err := own.create(ctx, of, obj)
				mu.Lock()
				s.entered(leftover{of, obj}, created, unsure, err)
				if created != nil {
					made = append(made, leftover{of, created})
				}
				if err != nil && !exceeded(err) {
					errs = append(errs, err)
				}
				mu.Unlock()
				if err == nil {
					return
				}
				poll.Pause(ctx, 100*time.Millisecond)
			}
		})
	}
	creating.Wait()
	return made, errors.Join(errs...)
}
