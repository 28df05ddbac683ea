// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/internal/heartbeat"
	"github.com/kube-annex/annex/internal/workloop"
)

// Orphans marks Features that no live server announces, in namespaces where no server is live whose engine would. The server of Features
// runs it, in every replica; annex-system, which it has engines for, is left out.
type Orphans struct {
	// Client is for the Features of all namespaces, and Leases for the Leases of replicas there.
	Client versioned.Interface
	Leases coordinationclient.LeasesGetter
	// LeaseDuration is the interval at which Leases are listed; 30 s. A server that has been silent for four times as long, and for as long as its
	// Leases say, is gone: one that restarts is not.
	LeaseDuration time.Duration
	// Clock is for tests; nil means the clock of the machine.
	Clock clock.WithTicker

	// servers are observed by the namespace of their Features.
	servers map[string]*servers
	// unreadable are the namespaces whose Leases cannot be read, which has been logged.
	unreadable map[string]bool
}

// servers are those that announce the Features of a namespace.
type servers struct {
	leases heartbeat.Observer
	// silentSince is when the last renewal was observed, or the observation began.
	silentSince time.Time
}

// Run works until the context ends. While all Features are those of annex-system it makes no requests but to watch Features.
func (o *Orphans) Run(ctx context.Context) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.LeaseDuration = Timings{LeaseDuration: o.LeaseDuration}.withDefaults().LeaseDuration
	informer := newInformer(o.Client, o.Client.FeaturesV1alpha1().Features(metav1.NamespaceAll), &v1alpha1.Feature{}, "")
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return
	}
	for ctx.Err() == nil {
		o.look(ctx, informer.GetStore())
		_ = workloop.Pause(ctx, o.Clock, o.LeaseDuration)
	}
}

// look marks what has been without a server for long enough.
func (o *Orphans) look(ctx context.Context, features cache.Store) {
	announced := map[string][]*v1alpha1.Feature{}
	for _, obj := range features.List() {
		feature := obj.(*v1alpha1.Feature)
		if feature.Namespace != featuregate.LeaseNamespace && feature.Status.Source != v1alpha1.SourceObserved &&
			meta.IsStatusConditionTrue(feature.Status.Conditions, v1alpha1.FeatureAvailable) {
			announced[feature.Namespace] = append(announced[feature.Namespace], feature)
		}
	}
	before := o.servers
	o.servers = map[string]*servers{}
	if len(announced) == 0 {
		return
	}
	// The silence of servers starts anew when their Leases cannot be read.
	common, ok := o.list(ctx, featuregate.LeaseNamespace)
	if !ok {
		return
	}
	for namespace, orphans := range announced {
		leases, ok := o.list(ctx, namespace)
		if !ok {
			continue
		}
		now, patience := o.Clock.Now(), orphanDurations*o.LeaseDuration
		leases = slices.DeleteFunc(append(leases, common...), func(lease coordinationv1.Lease) bool {
			return cmp.Or(lease.Labels[featuregate.LabelNamespace], lease.Namespace) != namespace
		})
		for i := range leases {
			patience = max(patience, time.Duration(ptr.Deref(leases[i].Spec.LeaseDurationSeconds, 0))*time.Second)
		}
		s := before[namespace]
		if s == nil {
			s = &servers{leases: heartbeat.Observer{Elapsed: heartbeat.Since(o.Clock)}, silentSince: now}
		}
		o.servers[namespace] = s
		if s.leases.Replace(leases) {
			s.silentSince = now
		}
		if now.Sub(s.silentSince) >= patience {
			o.mark(ctx, namespace, orphans)
			s.silentSince = now // A Feature that is announced again nevertheless stands for as long.
		}
	}
}

// orphanDurations is how many lease durations a server may be silent.
const orphanDurations = 4

func (o *Orphans) list(ctx context.Context, namespace string) ([]coordinationv1.Lease, bool) {
	ctx, cancel := context.WithTimeout(ctx, o.LeaseDuration)
	defer cancel()
	list, err := o.Leases.Leases(namespace).List(ctx, metav1.ListOptions{LabelSelector: announcerLabel})
	if err == nil {
		delete(o.unreadable, namespace)
		return list.Items, true
	}
	if !o.unreadable[namespace] && ctx.Err() == nil {
		klog.FromContext(ctx).Info("Could not list the Leases of servers that announce Features; trying again", "namespace", namespace, "reason", err.Error())
		if o.unreadable == nil {
			o.unreadable = map[string]bool{}
		}
		o.unreadable[namespace] = true
	}
	return nil, false
}

// mark writes that Features are not announced, unless somebody else has written since.
func (o *Orphans) mark(ctx context.Context, namespace string, features []*v1alpha1.Feature) {
	logger := klog.FromContext(ctx).WithValues("namespace", namespace)
	var marked []string
	for _, feature := range features {
		todo := decide(feature, input{now: o.Clock.Now(), retention: -1})
		if apiequality.Semantic.DeepEqual(feature.Status, todo.status) {
			continue
		}
		update := feature.DeepCopy()
		update.Status = todo.status
		_, err := o.Client.FeaturesV1alpha1().Features(namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{FieldManager: fieldManager})
		switch {
		case err == nil:
			marked = append(marked, feature.Name)
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil:
			logger.Error(err, "Could not mark a Feature that no live server announces", "feature", feature.Name)
		}
	}
	if len(marked) > 0 {
		logger.Info("No live server announces these Features", "features", marked)
	}
}
