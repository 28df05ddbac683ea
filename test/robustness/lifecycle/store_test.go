// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	nodev1alpha1 "github.com/kube-annex/annex/apis/node/v1alpha1"
)

// storeIn returns all objects in the etcd of a data directory, as they are stored. The process that has the etcd runs.
func storeIn(ctx context.Context, dataDir string) (map[string][]byte, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"unix://" + filepath.Join(dataDir, "etcd", "client.sock")}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	decoder, err := stored()
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, prefix := range []string{"/registry/", "/annex.io/registry/"} {
		found, err := client.Get(ctx, prefix, clientv3.WithPrefix())
		if err != nil {
			return nil, err
		}
		for _, kv := range found.Kvs {
			if out[string(kv.Key)], err = decode(decoder, kv.Value); err != nil {
				return nil, fmt.Errorf("what is stored at %s: %w", kv.Key, err)
			}
		}
	}
	return out, nil
}

// decode makes JSON of what is stored. Custom resources are that already.
func decode(decoder runtime.Decoder, value []byte) ([]byte, error) {
	if !bytes.HasPrefix(value, []byte("k8s\x00")) {
		return value, nil
	}
	object, gvk, err := decoder.Decode(value, nil, nil)
	if err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(*gvk)
	return json.Marshal(object)
}

// stored returns a decoder for all kinds that a control plane with Annex stores.
func stored() (runtime.Decoder, error) {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
		featuresv1alpha1.AddToScheme, multiclusterv1alpha1.AddToScheme, nodev1alpha1.AddToScheme,
	} {
		if err := add(all); err != nil {
			return nil, err
		}
	}
	return serializer.NewCodecFactory(all).UniversalDeserializer(), nil
}
