// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apiserver/pkg/storage/etcd3"
)

// marker is the uid of what stands in a list for an object that could not be decoded. No object has it: uids are made by the server.
const marker = "annex.io/unreadable"

// findings are what a list could not decode, by the revisions that wrote it.
type findings map[int64]error

type findingsKey struct{}

// judgement tells whether bytes are to blame for an error, and not what reads them: a key server or a conversion webhook that is away, or
// a version that this server does not know. Those errors go to the client as they are; what is only out of reach must not seem to be gone.
type judgement func(data []byte, err error) bool

func judgementFor(example runtime.Object) judgement {
	if _, ok := example.(runtime.Unstructured); !ok {
		return func(_ []byte, err error) bool { return !runtime.IsNotRegisteredError(err) }
	}
	return func(data []byte, _ error) bool { return !hasKind(data) }
}

// hasKind tells whether the bytes are an object of any kind.
func hasKind(data []byte) bool {
	for _, decoder := range []runtime.Decoder{unstructured.UnstructuredJSONScheme, cbor.NewSerializer(nothing{}, nothing{})} {
		if _, _, err := decoder.Decode(data, nil, &unstructured.Unstructured{}); err == nil {
			return true
		}
	}
	return false
}

// nothing is for decoders that have no use for a scheme.
type nothing struct{ runtime.ObjectTyper }

// New implements runtime.ObjectCreater.
func (nothing) New(schema.GroupVersionKind) (runtime.Object, error) {
	return nil, errors.New("not needed")
}

// tolerantDecoder has a list that collects findings go on where an item cannot be decoded.
type tolerantDecoder struct {
	etcd3.Decoder
	broken judgement
}

// DecodeListItem implements etcd3.Decoder.
func (d tolerantDecoder) DecodeListItem(ctx context.Context, data []byte, revision uint64, newItem func() runtime.Object) (runtime.Object, error) {
	err := transformError(data)
	if err == nil {
		var object runtime.Object
		if object, err = d.Decoder.DecodeListItem(ctx, data, revision, newItem); err == nil || !d.broken(data, err) {
			return object, err
		}
	}
	found, _ := ctx.Value(findingsKey{}).(findings)
	if found == nil {
		return nil, err
	}
	object := newItem()
	accessor, accessErr := meta.Accessor(object)
	if accessErr != nil {
		return nil, err
	}
	accessor.SetUID(marker)
	found[int64(revision)] = err
	return object, nil
}

// tolerantCodec decodes what watches see, and has them go on.
type tolerantCodec struct {
	runtime.Codec
	broken judgement
}

// Decode implements runtime.Decoder.
func (c tolerantCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if err := transformError(data); err != nil {
		return &undecoded{reason: err}, &schema.GroupVersionKind{}, nil
	}
	object, kind, err := c.Codec.Decode(data, defaults, into)
	if err != nil && into == nil && c.broken(data, err) {
		return &undecoded{reason: err}, &schema.GroupVersionKind{}, nil
	}
	return object, kind, err
}
