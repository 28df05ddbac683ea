// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/restconfig"
	multicluster "github.com/kube-annex/annex/generated/clientset/versioned/typed/multicluster/v1alpha1"
)

const (
	// callTimeout is how long one piece of work at the hub may take.
	callTimeout = 5 * time.Second
	// attempts is how often a reservation is tried while others change it.
	attempts = 4
	// maxResponse limits an answer in bytes. The longest is the list of the reservations of one cluster, each below 1 KiB.
	maxResponse = 1 << 20
)

// ErrChanged says that a reservation is no longer the one that was to be freed.
var ErrChanged = errors.New("the reservation has changed since it was looked at")

// Client works on reservations. It is made once in the life of a process: client-go never lets go of some of what it makes for one.
type Client struct {
	host         string
	http         *http.Client
	reservations multicluster.ClusterIDReservationInterface
	circuit      circuit
}

// NewClient returns a client of the hub. It does not dial.
func NewClient(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.Timeout = callTimeout
	config.QPS, config.Burst, config.RateLimiter = 20, 40, nil
	config.WarningHandler = rest.NoWarnings{}
	restconfig.RejectRedirects(config)
	restconfig.LimitResponses(config, maxResponse)
	if config.Proxy == nil {
		// Connections are this client's own, which closes them; client-go shares those of configurations that name no proxy.
		config.Proxy = http.ProxyFromEnvironment
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the hub: %w", err)
	}
	typed, err := multicluster.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client of the hub: %w", err)
	}
	return &Client{host: config.Host, http: httpClient, reservations: typed.ClusterIDReservations(), circuit: circuit{now: time.Now}}, nil
}

// Close ends connections that are not in use.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// Membership is what a reservation is for: the cluster with the uid Cluster is a member of Set under ID by the claim with the uid Claim.
type Membership struct {
	Set, ID        string
	Cluster, Claim types.UID
}

// Reserve makes the reservation of a membership, or takes over the one that its cluster has, and changes nothing where that is
// done. It returns a HeldError if the id is another cluster's. A dry run asks the same of the hub and leaves nothing there.
func (c *Client) Reserve(ctx context.Context, m Membership, dryRun bool) error {
	return c.do(ctx, func(ctx context.Context) error {
		for range attempts {
			done, err := c.reserve(ctx, m, dryRunOption(dryRun))
			if done || err != nil {
				return err
			}
		}
		return errChanging
	})
}

// reserve tries once. Without done and an error it is to be tried again: somebody else was faster.
func (c *Client) reserve(ctx context.Context, m Membership, dryRun []string) (done bool, err error) {
	name := v1alpha1.ReservationName(m.Set, m.ID)
	reservation, err := c.reservations.Create(ctx, &v1alpha1.ClusterIDReservation{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ClusterIDReservationSpec{ClusterSet: m.Set, ClusterID: m.ID, ClusterUID: m.Cluster, ClaimUID: m.Claim},
	}, metav1.CreateOptions{DryRun: dryRun})
	switch {
	case err == nil:
		return true, m.checkHeld(reservation)
	case !apierrors.IsAlreadyExists(err):
		return false, err
	}
	existing, err := c.reservations.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil // it was freed just now
	case err != nil:
		return false, err
	}
	if err = m.check(existing); err != nil {
		return false, err
	}
	switch {
	case existing.Spec.ClusterUID != m.Cluster:
		return false, &HeldError{Set: m.Set, ID: m.ID, Owner: existing.Status.Owner, Cluster: existing.Spec.ClusterUID}
	case existing.DeletionTimestamp != nil:
		return false, errChanging
	case existing.HoldingClaim() == m.Claim:
		return true, nil
	}
	metav1.SetMetaDataAnnotation(&existing.ObjectMeta, v1alpha1.ClaimUIDAnnotation, string(m.Claim))
	reservation, err = c.reservations.Update(ctx, existing, metav1.UpdateOptions{DryRun: dryRun})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, m.checkHeld(reservation)
}

// check reports a reservation in an answer that is not the one of the set and the id, or that nobody owns.
func (m Membership) check(r *v1alpha1.ClusterIDReservation) error {
	if r.Name != v1alpha1.ReservationName(m.Set, m.ID) || r.Spec.ClusterSet != m.Set || r.Spec.ClusterID != m.ID || r.Status.Owner == "" {
		return errOtherAnswer
	}
	return nil
}

// checkHeld is check, and reports a reservation that the membership does not hold.
func (m Membership) checkHeld(r *v1alpha1.ClusterIDReservation) error {
	if r.Spec.ClusterUID != m.Cluster || r.HoldingClaim() != m.Claim {
		return errOtherAnswer
	}
	return m.check(r)
}

// Of returns the reservations of a cluster.
func (c *Client) Of(ctx context.Context, cluster types.UID) ([]v1alpha1.ClusterIDReservation, error) {
	var list *v1alpha1.ClusterIDReservationList
	err := c.do(ctx, func(ctx context.Context) (err error) {
		selector := fields.OneTermEqualSelector("spec.clusterUID", string(cluster)).String()
		if list, err = c.reservations.List(ctx, metav1.ListOptions{FieldSelector: selector}); err != nil {
			return err
		}
		for i := range list.Items {
			r := &list.Items[i]
			if r.Spec.ClusterUID != cluster || r.Name != v1alpha1.ReservationName(r.Spec.ClusterSet, r.Spec.ClusterID) {
				return errOtherAnswer
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Free deletes a reservation as it was looked at. It returns ErrChanged if it was taken over since then.
func (c *Client) Free(ctx context.Context, r *v1alpha1.ClusterIDReservation) error {
	return c.do(ctx, func(ctx context.Context) error {
		err := c.reservations.Delete(ctx, r.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion},
		})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsConflict(err):
			return ErrChanged
		}
		return err
	})
}

// do asks the hub, unless it is known to be away.
func (c *Client) do(ctx context.Context, ask func(context.Context) error) error {
	if err := c.circuit.enter(); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := ask(asking)
	if err != nil && ctx.Err() != nil {
		// The caller is gone, which says nothing about the hub.
		return ctx.Err()
	}
	err = c.explain(err)
	c.circuit.leave(err)
	return err
}

func dryRunOption(dryRun bool) []string {
	if dryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}
