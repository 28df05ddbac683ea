// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errorTranslator turns errors of etcd about a write into API errors that a client can act on. The apiserver would answer 500.
type errorTranslator struct {
	kubernetes.Interface
	// maxBytes is the size of the largest value that is sent.
	maxBytes int
	// onFull is called when etcd rejects a write because of the NOSPACE alarm.
	onFull func()
	// external is set for an etcd of other operators.
	external bool
}

func (t errorTranslator) OptimisticPut(ctx context.Context, key string, value []byte, expected int64, opts kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	if len(value) > t.maxBytes {
		return kubernetes.PutResponse{}, tooLarge(len(value), t.maxBytes)
	}
	response, err := t.Interface.OptimisticPut(ctx, key, value, expected, opts)
	return response, t.translate(err, len(value))
}

func (t errorTranslator) OptimisticDelete(ctx context.Context, key string, expected int64, opts kubernetes.DeleteOptions) (kubernetes.DeleteResponse, error) {
	response, err := t.Interface.OptimisticDelete(ctx, key, expected, opts)
	return response, t.translate(err, 0)
}

func (t errorTranslator) translate(err error, size int) error {
	switch {
	case err == nil:
		return nil
	case isCode(err, rpctypes.ErrRequestTooLarge), sentTooLarge(err):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the object takes %d bytes in storage, which etcd refuses as too large; make it smaller, or raise --max-request-bytes of the etcd cluster", size))
	case isCode(err, rpctypes.ErrNoSpace):
		// The write that raises the alarm is applied: etcd checks the size after it. As after a timeout, the caller has to read.
		t.onFull()
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusInsufficientStorage,
			Reason:  metav1.StatusReason("InsufficientStorage"),
			Message: t.fullMessage(),
		}}
	}
	return err
}

// fullMessage returns the remedy.
func (t errorTranslator) fullMessage() string {
	const full = "the store is full: etcd has reached its space quota and takes no more writes; "
	if t.external {
		return full + "delete what is not needed, which works meanwhile, then compact and defragment etcd, or raise its --quota-backend-bytes, " +
			"and then lift the alarm with `etcdctl alarm disarm`"
	}
	return full + "try again, and if it stays so delete what is not needed, which works meanwhile, or raise the quota with --etcd-quota-bytes"
}

func tooLarge(size, maxBytes int) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the object takes %d bytes in storage, and etcd takes at most %d; make it smaller", size, maxBytes))
}

// isCode compares messages: the embedded etcd returns error values of its own.
func isCode(err, want error) bool {
	return errors.Is(err, want) || rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(want)
}

// sentTooLarge reports whether the error is of grpc's limit, which applies before etcd's.
func sentTooLarge(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}
