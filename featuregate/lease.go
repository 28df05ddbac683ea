// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// What the Lease of a running gate has. The holder is the instance.
const (
	// LabelComponent is the component.
	LabelComponent = "features.k8s.io/component"
	// LabelVersion is the component's version, with "_" for what a label cannot have.
	LabelVersion = "features.k8s.io/version"
	// AnnotationVersion is the component's version as it is in status.uses.
	AnnotationVersion = "features.k8s.io/version"
	// AnnotationObserved is the resourceVersion up to which every change of a Feature in the namespace has been applied, and what
	// disagreed has been reported. Absent until the gate has seen the Features.
	AnnotationObserved = "features.k8s.io/observed"
)

const (
	// LeaseDuration is how long a gate counts as running after it last renewed its Lease.
	LeaseDuration = 15 * time.Minute
	// RenewInterval is how often a Lease is renewed, give or take a tenth.
	RenewInterval = 5 * time.Minute
)

// requestTimeout is how long one request may take.
const requestTimeout = 15 * time.Second

// LeaseName is the name of the Lease of an instance of a component: what people call it, and a part that makes it unique.
func LeaseName(component, instance string) string {
	sum := sha256.Sum256([]byte(component + "\x00" + instance))
	name := readableName(instance)
	if first := readableName(component); !strings.HasPrefix(name, first) {
		name = first + "-" + name
	}
	return strings.Trim(name+"-"+hex.EncodeToString(sum[:5]), "-")
}

// readableName is what a name of an object can have of this text.
func readableName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(name[:min(len(name), 100)], "-")
}

// lease is the sign of life of a running gate.
type lease struct {
	options *Options
	client  coordinationclient.LeaseInterface
	logger  klog.Logger
	// current is the Lease as it was written last; nil if that is not known. tried is set with the first attempt to write.
	current *coordinationv1.Lease
	tried   bool
	// acquired is the time by which this process knows that it wrote the Lease last.
	acquired *metav1.MicroTime
	// ahead is how much the server's clock is ahead of ours, to a second.
	ahead time.Duration
}

// write renews the Lease, and makes it first where there is none. An empty observed leaves the annotation as it is.
func (l *lease) write(ctx context.Context, observed string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := l.writeOnce(ctx, observed)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		if apierrors.IsConflict(err) {
			l.logger.Info("Another process writes the Lease of this one; give each an Instance of its own", "lease", LeaseName(l.options.Component, l.options.Instance), "instance", l.options.Instance)
		}
		l.current = nil
		err = l.writeOnce(ctx, observed)
	}
	return err
}

func (l *lease) writeOnce(ctx context.Context, observed string) error {
	// The API keeps microseconds.
	now := metav1.NewMicroTime(l.options.Clock.Now().Truncate(time.Microsecond))
	next := l.current.DeepCopy()
	begins := next == nil
	if begins {
		found, err := l.client.Get(ctx, LeaseName(l.options.Component, l.options.Instance), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			next = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName(l.options.Component, l.options.Instance)}}
		case err != nil:
			return err
		default:
			next = found
		}
		next.Labels, next.Annotations = with(next.Labels), with(next.Annotations)
		next.Labels[LabelComponent], next.Labels[LabelVersion] = l.options.Component, VersionLabel(l.options.Version)
		next.Annotations[AnnotationVersion] = l.options.Version
		// What a process of this name has observed before says nothing of this one.
		delete(next.Annotations, AnnotationObserved)
		next.Spec.HolderIdentity = ptr.To(l.options.Instance)
		next.Spec.LeaseDurationSeconds = ptr.To(int32(LeaseDuration / time.Second))
		next.Spec.AcquireTime, l.acquired = &now, &now
	}
	next.Spec.RenewTime = &now
	if observed != "" {
		next.Annotations[AnnotationObserved] = observed
	}
	l.tried = true
	var written *coordinationv1.Lease
	var err error
	if next.ResourceVersion == "" {
		written, err = l.client.Create(ctx, next, metav1.CreateOptions{})
	} else {
		written, err = l.client.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	l.current = written
	l.readClock(written)
	return nil
}

func with(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// readClock reads the server's clock from what it has just written: it notes the time of every write.
func (l *lease) readClock(written *coordinationv1.Lease) {
	latest := written.CreationTimestamp.Time
	for _, entry := range written.ManagedFields {
		if entry.Time != nil && entry.Time.After(latest) {
			latest = entry.Time.Time
		}
	}
	if !latest.IsZero() {
		l.ahead = latest.Sub(l.options.Clock.Now())
	}
}

// letGo deletes the Lease, unless another process has written it meanwhile.
func (l *lease) letGo(ctx context.Context) {
	if !l.tried {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout/3)
	defer cancel()
	err := l.delete(ctx)
	if apierrors.IsConflict(err) {
		// It may be this process's own last write, which was cut off when the context ended.
		var found *coordinationv1.Lease
		if found, err = l.client.Get(ctx, LeaseName(l.options.Component, l.options.Instance), metav1.GetOptions{}); err == nil && found.Spec.AcquireTime.Equal(l.acquired) {
			l.current = found
			err = l.delete(ctx)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		l.logger.Info("The Lease of this process could not be deleted and lasts until it expires", "duration", LeaseDuration, "reason", err.Error())
	}
}

func (l *lease) delete(ctx context.Context) error {
	options := metav1.DeleteOptions{}
	if l.current != nil {
		options.Preconditions = &metav1.Preconditions{UID: &l.current.UID, ResourceVersion: &l.current.ResourceVersion}
	}
	return l.client.Delete(ctx, LeaseName(l.options.Component, l.options.Instance), options)
}
