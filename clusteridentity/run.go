// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusteridentity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	multiclusterclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/multicluster/v1alpha1"
	informers "github.com/kube-annex/annex/generated/informers/externalversions/multicluster/v1alpha1"
)

// requestTimeout keeps one look from waiting for ever at an API that does not answer.
const requestTimeout = 30 * time.Second

// lookAgain is how quickly a look that failed is repeated.
var lookAgain = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Steps: 8, Cap: 30 * time.Second, Jitter: 0.5}

// Run follows the claims until the context ends and returns when nothing is left running. Trouble with the API is no reason to return:
// an error means that there is nothing to begin with.
func (s *Source) Run(ctx context.Context, config *rest.Config) error {
	if config == nil {
		return errors.New("clusteridentity: there is no client configuration")
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client that reads ClusterClaims: %w", err)
	}
	return s.RunWith(ctx, client)
}

// RunWith is Run for a program that has a client of its own.
func (s *Source) RunWith(ctx context.Context, client versioned.Interface) error {
	if client == nil {
		return errors.New("clusteridentity: RunWith needs a client of ClusterClaims")
	}
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("clusteridentity: the source runs already; call Run once")
	}
	defer s.running.Store(false)
	logger := klog.FromContext(ctx).WithName("clusteridentity")
	noting := &notingClient{Interface: client, ctx: ctx, logger: logger, troubles: &s.troubles}
	defer s.troubles.forget()
	r := &reading{source: s, logger: logger, claims: noting.MulticlusterV1alpha1().ClusterClaims(), changed: make(chan struct{}, 1)}
	for _, name := range []string{v1alpha1.ClaimID, v1alpha1.ClaimClusterSet} {
		selected := func(options *metav1.ListOptions) { only(name, options) }
		informer := informers.NewFilteredClusterClaimInformer(noting, 0, cache.Indexers{}, selected) //nolint:contextcheck // RunWithContext has it
		changed := func(any) { r.signal() }
		handler := cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, claim any) { changed(claim) }, DeleteFunc: changed}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch the ClusterClaim %s: %w", name, err)
		}
		r.watches = append(r.watches, informer)
	}
	var work sync.WaitGroup
	// The informers would log every attempt.
	quiet := klog.NewContext(ctx, klog.Logger{})
	for _, informer := range r.watches {
		work.Go(func() { informer.RunWithContext(quiet) })
	}
	r.follow(ctx)
	work.Wait()
	return nil
}

// only has a request ask for one claim, which is how the right to that claim alone is enough.
func only(name string, options *metav1.ListOptions) {
	options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
}

// claim is what matters of a ClusterClaim. The zero claim does not exist.
type claim struct {
	exists bool
	uid    types.UID
	value  string
}

func claimOf(object *v1alpha1.ClusterClaim) claim {
	return claim{exists: true, uid: object.UID, value: object.Spec.Value}
}

// pair is the id and the set.
type pair struct{ id, set claim }

func (p pair) identity() Identity {
	identity := Identity{Known: true, ID: p.id.value}
	// Annex never has a set without an id. Another server of the same API might, and then the cluster is no member.
	if p.id.exists && p.set.exists {
		identity.ClusterSet, identity.Membership = p.set.value, p.set.uid
	}
	return identity
}

// reading is one run of a source.
type reading struct {
	source *Source
	logger klog.Logger
	claims multiclusterclient.ClusterClaimInterface
	// watches are of the id and of the set.
	watches []cache.SharedIndexInformer
	// changed has room for one signal: a watch has delivered something.
	changed chan struct{}
}

func (r *reading) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// follow looks whenever the watches show something else than what was seen last. A watch that is behind is then a reason for a look that
// finds nothing new, and there is one more when it has caught up.
func (r *reading) follow(ctx context.Context) {
	for _, watch := range r.watches {
		select {
		case <-ctx.Done():
			return
		case <-watch.HasSyncedChecker().Done():
		}
	}
	var seen pair
	looked, backoff := false, lookAgain
	for ctx.Err() == nil {
		var again <-chan time.Time
		if !looked || r.watched() != seen {
			now, err := r.look(ctx)
			if err == nil {
				seen, looked, backoff = now, true, lookAgain
				if r.source.publish(now.identity()) {
					r.logger.V(2).Info("The identity of the cluster has changed", "clusterID", now.id.value, "clusterSet", now.set.value)
				}
			} else {
				again = time.After(backoff.Step())
			}
		}
		select {
		case <-ctx.Done():
		case <-r.changed:
		case <-again:
		}
	}
}

// watched is what the watches show, which two of them may never have seen at the same time.
func (r *reading) watched() pair {
	var shown [2]claim
	for i, name := range []string{v1alpha1.ClaimID, v1alpha1.ClaimClusterSet} {
		object, exists, err := r.watches[i].GetStore().GetByKey(name)
		if found, ok := object.(*v1alpha1.ClusterClaim); ok && exists && err == nil {
			shown[i] = claimOf(found)
		}
	}
	return pair{id: shown[0], set: shown[1]}
}

// look reads a pair that has been true: between two reads that find the same membership there was no other, and the id that is read
// between them is the one of that membership. If both find none, the id may be that of a membership in between; without a set it was
// true when that ended.
func (r *reading) look(ctx context.Context) (pair, error) {
	set, err := r.read(ctx, v1alpha1.ClaimClusterSet)
	for err == nil {
		var now pair
		if now.id, err = r.read(ctx, v1alpha1.ClaimID); err != nil {
			break
		}
		if now.set, err = r.read(ctx, v1alpha1.ClaimClusterSet); err != nil {
			break
		}
		if now.set == set {
			return now, nil
		}
		set = now.set
	}
	return pair{}, err
}

// read reads a claim as it is now, whatever a cache of the server has. A list, unlike a get, tells a claim that is not there from an API
// that is not.
func (r *reading) read(ctx context.Context, name string) (claim, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	options := metav1.ListOptions{}
	only(name, &options)
	list, err := r.claims.List(ctx, options)
	if err != nil {
		return claim{}, err
	}
	for i := range list.Items {
		// A fake client selects by no field.
		if list.Items[i].Name == name {
			return claimOf(&list.Items[i]), nil
		}
	}
	return claim{}, nil
}
