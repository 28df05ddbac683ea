// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/restconfig"
)

// HeldError says that an id is reserved for another cluster.
type HeldError struct {
	// Set and ID are what is reserved, Owner the user of the hub who reserved it, and Cluster the uid of the cluster.
	Set, ID, Owner string
	Cluster        types.UID
}

// Error implements error.
func (e *HeldError) Error() string {
	return fmt.Sprintf("the id %q is taken in the set %q: it is reserved for the cluster with uid %s of %q", e.ID, e.Set, e.Cluster, e.Owner)
}

// AwayError says that the hub did not answer.
type AwayError struct {
	// Host is the hub's address.
	Host string
	Err  error
}

// Error implements error.
func (e *AwayError) Error() string {
	return fmt.Sprintf("the hub at %s does not answer: %v", e.Host, e.Err)
}

// Unwrap returns what happened.
func (e *AwayError) Unwrap() error { return e.Err }

// errChanging is why a reservation could not be made in a few attempts.
var errChanging = errors.New("the reservation at the hub keeps changing, or is being deleted there; try again")

// errOtherAnswer reports an answer about something else than what was asked for.
var errOtherAnswer = errors.New("the answer is not the reservation that was asked for")

// explain says what an answer of the hub means, and what to do.
func (c *Client) explain(err error) error {
	held, away := (*HeldError)(nil), (*AwayError)(nil)
	status := apierrors.APIStatus(nil)
	redirected, tooLarge := (*restconfig.RedirectError)(nil), (*http.MaxBytesError)(nil)
	switch {
	case err == nil, errors.As(err, &held), errors.As(err, &away), errors.Is(err, errChanging), errors.Is(err, ErrChanged), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errOtherAnswer):
		return fmt.Errorf("the hub at %s is no hub: %w; check the server that --%s names", c.host, err, KubeconfigFlag)
	case errors.As(err, &redirected):
		return fmt.Errorf("the hub at %s does not answer itself: %w", c.host, redirected)
	case errors.As(err, &tooLarge):
		return fmt.Errorf("the hub at %s sends more than %d bytes, which no answer of a hub has; check the server that --%s names", c.host, tooLarge.Limit, KubeconfigFlag)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the hub at %s does not accept the credentials of --%s: %w", c.host, KubeconfigFlag, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the hub at %s refuses: %w; its role annex-clusterset-member has the rights that members need", c.host, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the hub at %s does not serve clusteridreservations.%s: %w; register Annex there", c.host, v1alpha1.GroupName, err)
	case errors.As(err, &status) && status.Status().Code/100 == 4 && !apierrors.IsTooManyRequests(err) && !apierrors.IsTimeout(err):
		return fmt.Errorf("the hub at %s refuses: %w", c.host, err)
	}
	return &AwayError{Host: c.host, Err: err}
}
