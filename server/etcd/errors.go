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

// clearErrors turns what etcd says of a write into what a client of the API can act on. The apiserver would answer 500.
type clearErrors struct {
	kubernetes.Interface
	// maxBytes is the largest value that is sent.
	maxBytes int
	// onFull is called when etcd refused a write for want of space.
	onFull func()
	// external is an etcd that others run, and make room in.
	external bool
}

func (c clearErrors) OptimisticPut(ctx context.Context, key string, value []byte, expected int64, opts kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	if len(value) > c.maxBytes {
		return kubernetes.PutResponse{}, tooLarge(len(value), c.maxBytes)
	}
	response, err := c.Interface.OptimisticPut(ctx, key, value, expected, opts)
	return response, c.clear(err, len(value))
}

func (c clearErrors) OptimisticDelete(ctx context.Context, key string, expected int64, opts kubernetes.DeleteOptions) (kubernetes.DeleteResponse, error) {
	response, err := c.Interface.OptimisticDelete(ctx, key, expected, opts)
	return response, c.clear(err, 0)
}

func (c clearErrors) clear(err error, size int) error {
	switch {
	case err == nil:
		return nil
	case isCode(err, rpctypes.ErrRequestTooLarge), sentTooLarge(err):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the object takes %d bytes in storage, which etcd refuses as too large; make it smaller, or raise --max-request-bytes of the etcd cluster", size))
	case isCode(err, rpctypes.ErrNoSpace):
		// The write that raises the alarm is done all the same: etcd measures again after it. As after a timeout, the
		// caller learns by reading.
		c.onFull()
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusInsufficientStorage,
			Reason:  metav1.StatusReason("InsufficientStorage"),
			Message: c.full(),
		}}
	}
	return err
}

// full says what to do about it.
func (c clearErrors) full() string {
	const full = "the store is full: etcd has reached its space quota and takes no more writes; "
	if c.external {
		return full + "delete what is not needed, which works meanwhile, then compact and defragment etcd, or raise its --quota-backend-bytes, " +
			"and then lift the alarm with `etcdctl alarm disarm`"
	}
	return full + "try again, and if it stays so delete what is not needed, which works meanwhile, or raise the quota with --etcd-quota-bytes"
}

func tooLarge(size, maxBytes int) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the object takes %d bytes in storage, and etcd takes at most %d; make it smaller", size, maxBytes))
}

// isCode compares by message: the embedded etcd returns its own error values and not those of the client.
func isCode(err, want error) bool {
	return errors.Is(err, want) || rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(want)
}

// sentTooLarge tells of grpc's own limit, which is met before etcd's.
func sentTooLarge(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}
