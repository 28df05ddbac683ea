// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"

	"k8s.io/apiserver/pkg/storage/value"
)

// localProviders are the prefixes of values that are decrypted with a key of the configuration, without a key server.
var localProviders = [][]byte{[]byte("k8s:enc:aescbc:v1:"), []byte("k8s:enc:aesgcm:v1:"), []byte("k8s:enc:secretbox:v1:")}

// untransformed stands before the error in place of a value that could not be decrypted. No decoder takes it for an object.
var untransformed = []byte("\x00annex.io/untransformed\x00")

// tolerantTransformer has lists and watches continue where a value cannot be decrypted, as tolerantDecoder does where one cannot be decoded.
type tolerantTransformer struct{ value.Transformer }

// TransformFromStorage implements value.Transformer.
func (t tolerantTransformer) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	out, stale, err := t.Transformer.TransformFromStorage(ctx, data, dataCtx)
	if err != nil && ctx.Value(findingsKey{}) != nil && t.isBroken(ctx, data, dataCtx, err) {
		return append(bytes.Clone(untransformed), err.Error()...), false, nil
	}
	return out, stale, err
}

// isBroken reports whether the bytes are to blame for an error, and not a key that is not configured. That error does not depend on the
// value, so it is the same without one. The configuration may be reloaded meanwhile, so the error must be the same again.
func (t tolerantTransformer) isBroken(ctx context.Context, data []byte, dataCtx value.Context, err error) bool {
	for _, prefix := range localProviders {
		if bytes.HasPrefix(data, prefix) {
			_, _, unknownKey := t.Transformer.TransformFromStorage(ctx, prefix, dataCtx)
			_, _, again := t.Transformer.TransformFromStorage(ctx, data, dataCtx)
			return unknownKey != nil && again != nil && err.Error() != unknownKey.Error() && err.Error() == again.Error()
		}
	}
	return false
}

// transformError returns why a value could not be decrypted, nil if it could.
func transformError(data []byte) error {
	if reason, ok := bytes.CutPrefix(data, untransformed); ok {
		return errors.New(string(reason))
	}
	return nil
}
