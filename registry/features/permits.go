// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/kube-annex/annex/apis/features"
	"github.com/kube-annex/annex/registry/resource"
)

// TaskWaitForUses is the task in which a feature that is turning on waits for its reporters; it permits use meanwhile.
const TaskWaitForUses = "WaitForUses"

// Permits answers from the Features of one namespace.
type Permits struct {
	namespace string
	own       func(gate string) bool
	stored    atomic.Pointer[stored]
}

// stored is where Features are, once their group is there.
type stored struct {
	*resource.Reader[*features.Feature]
	store *genericregistry.Store
}

var _ resource.Permits = &Permits{}

// errNotInstalled is the mistake of serving gated kinds without the Features.
var errNotInstalled = errors.New("the server has not installed the Features that decide; install them with the same Permits")

// NewPermits answers from the Features of a namespace. A feature that nobody has announced there permits what own says of the process's
// own gate. It answers after Install.
func NewPermits(namespace string, own func(gate string) bool) *Permits {
	return &Permits{namespace: namespace, own: own}
}

// Install adds the group's kinds as the function Install does, and answers from what is stored there.
func (p *Permits) Install(group *resource.Group) error { return p.InstallWith(group, nil) }

// InstallWith does as Install and passes each report to the reporters.
func (p *Permits) InstallWith(group *resource.Group, reporters Reporters) error {
	store, err := install(group, reporters)
	if err != nil {
		return err
	}
	reader, err := resource.NewReader(group, featureKind, store)
	if err != nil {
		return err
	}
	p.stored.Store(&stored{Reader: reader, store: store})
	return nil
}

// Read implements resource.Permits.
func (p *Permits) Read(ctx context.Context, gate string) (resource.Permit, error) {
	return p.ask(ctx, gate, (*resource.Reader[*features.Feature]).Read)
}

// Recall implements resource.Permits: it asks the watch cache.
func (p *Permits) Recall(ctx context.Context, gate string) (resource.Permit, error) {
	return p.ask(ctx, gate, (*resource.Reader[*features.Feature]).Recall)
}

type read = func(*resource.Reader[*features.Feature], context.Context, string) (*features.Feature, resource.Position, error)

func (p *Permits) ask(ctx context.Context, gate string, read read) (resource.Permit, error) {
	stored := p.stored.Load()
	if stored == nil {
		return resource.Permit{}, errNotInstalled
	}
	feature, position, err := read(stored.Reader, genericapirequest.WithNamespace(ctx, p.namespace), gate)
	if err != nil {
		return resource.Permit{}, err
	}
	return resource.Permit{
		Permission: p.permission(gate, feature),
		Feature:    p.namespace + "/" + gate,
		Key:        position.Key,
		Revision:   position.Revision,
	}, nil
}

// permission tells what a feature permits. Nil is one that does not exist.
func (p *Permits) permission(gate string, feature *features.Feature) resource.Permission {
	if feature == nil || feature.Status.State == "" {
		if p.own(gate) {
			return resource.Permitted
		}
		return resource.Off
	}
	switch status := &feature.Status; {
	case status.State == features.StateOn:
		return resource.Permitted
	case status.State == features.StateTurningOn && len(status.Tasks) > 0 && status.Tasks[0].Name == TaskWaitForUses:
		return resource.Permitted
	case status.State == features.StateTurningOff && slices.ContainsFunc(status.Tasks, awaitsConfirmation):
		return resource.Unconfirmed
	case status.State == features.StateTurningOff:
		return resource.TurningOff
	}
	return resource.Off
}

func awaitsConfirmation(task features.Task) bool {
	return task.State == features.TaskAwaitingConfirmation
}
