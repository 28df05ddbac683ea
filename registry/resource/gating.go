// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/gatedfield"
)

// gating is what features decide about the writes of one endpoint. A nil one decides nothing.
type gating struct {
	permits  Permits
	resource schema.GroupResource
	// gate is the feature of the whole resource; empty where it has none.
	gate string
	// fields are the gated ones that the endpoint writes.
	fields []gatedfield.Field
}

// verdict is what came out for one attempt at a write. Strategies cannot fail while they prepare an object, so it waits in the
// guard for the validation that follows.
type verdict struct {
	// pins are the features that the write depends on.
	pins []pin
	// errs are what is wrong with the object, and err is why nothing more is to be said about it.
	errs     field.ErrorList
	err      error
	warnings []string
}

// gating returns what decides about the fields of a kind that an endpoint writes, or nil if nothing does.
func (g *Group) gating(resource schema.GroupResource, example runtime.Object, gate string, fields []gatedfield.Field, writes func(path []string) bool) *gating {
	if g.permits == nil {
		return nil
	}
	kinds, _, err := g.scheme.ObjectKinds(example)
	if err != nil {
		return nil // It cannot be served either.
	}
	out := &gating{permits: g.permits, resource: resource, gate: gate}
	for _, f := range fields {
		if f.Kind == g.version.WithKind(kinds[0].Kind) && writes(f.Path) {
			out.fields = append(out.fields, f)
		}
	}
	if gate == "" && len(out.fields) == 0 {
		return nil
	}
	return out
}

// prepare takes from an object what is not permitted, and leaves its verdict in the guard. A nil old one is a create.
func (g *gating) prepare(ctx context.Context, obj, old Object) {
	guard := guardFrom(ctx)
	if g == nil || guard == nil {
		return
	}
	j := judge{gating: g, guard: guard, known: map[string]Permit{}}
	if old == nil && g.gate != "" {
		j.create(ctx, obj.GetName())
	}
	for _, f := range g.fields {
		if j.err != nil {
			break
		}
		if f.IsSet(obj) {
			j.err = j.write(ctx, f, obj, old)
		}
	}
	guard.conclude(j.verdict)
}

// errorsOf returns what prepare found wrong with an object.
func (g *gating) errorsOf(ctx context.Context, obj, old Object) field.ErrorList {
	if g == nil {
		return nil
	}
	if guard := guardFrom(ctx); guard != nil {
		return guard.concluded().errs
	}
	if old == nil && g.gate != "" || slices.ContainsFunc(g.fields, func(f gatedfield.Field) bool { return f.IsSet(obj) }) {
		return field.ErrorList{field.InternalError(nil, errors.New("it uses what a feature has to permit, and is not written through its endpoint"))}
	}
	return nil
}

func (g *gating) warningsOf(ctx context.Context) []string {
	guard := guardFrom(ctx)
	if g == nil || guard == nil {
		return nil
	}
	return guard.concluded().warnings
}

// judge forms the verdict on one attempt.
type judge struct {
	*gating
	verdict
	guard *guard
	known map[string]Permit
}

// permit asks each feature once. What the process remembers is good enough for a yes, since the write fails if it is out of date; a no
// and what is not going to be compared is read from the store.
func (j *judge) permit(ctx context.Context, gate string) (Permit, error) {
	if known, ok := j.known[gate]; ok {
		return known, nil
	}
	var out Permit
	var err error
	if !j.guard.readsAnew() {
		out, err = j.permits.Recall(ctx, gate)
	}
	if err == nil && out.Permission != Permitted {
		out, err = j.permits.Read(ctx, gate)
	}
	if err != nil {
		return Permit{}, apierrors.NewInternalError(fmt.Errorf("finding out whether the feature %s permits this: %w", gate, err))
	}
	j.known[gate] = out
	return out, nil
}

func (j *judge) pin(permit Permit) {
	j.pins = append(j.pins, pin{key: permit.Key, revision: permit.Revision})
}

// create judges that an object of a gated resource comes to be.
func (j *judge) create(ctx context.Context, name string) {
	permit, err := j.permit(ctx, j.gate)
	switch {
	case err != nil:
		j.err = err
	case permit.Permission == Permitted:
		j.pin(permit)
	case permit.Permission == TurningOff, permit.Permission == Unconfirmed:
		j.err = apierrors.NewForbidden(j.resource, name, fmt.Errorf("%s is being turned off, until when no more %s can be created; %s",
			permit.Feature, j.resource.Resource, turnOn(j.gate, permit)))
	default:
		j.err = NotServed(j.resource, "POST")
	}
}

// write judges a gated field that the object has. A write that keeps the field depends on the answer, and so does one that
// destroys what was stored.
func (j *judge) write(ctx context.Context, f gatedfield.Field, obj, old Object) error {
	permit, err := j.permit(ctx, f.Gate)
	if err != nil {
		return err
	}
	inUse := old != nil && f.IsSet(old)
	switch {
	case permit.Permission == Permitted:
		j.pin(permit)
	case f.WhenOff == gatedfield.Reject && !inUse:
		j.errs = append(j.errs, field.Forbidden(fieldPath(f.Path), fmt.Sprintf("%s is %s, so this may not be set; %s",
			permit.Feature, permit.Permission, turnOn(f.Gate, permit))))
	case f.WhenOff == gatedfield.Reject, inUse && (permit.Permission == Off || permit.Permission == Unconfirmed):
		j.pin(permit)
	default:
		if inUse {
			j.pin(permit)
		}
		f.Clear(obj)
		if err := disown(obj, f); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("dropping %s: %w", fieldPath(f.Path), err))
		}
		j.warnings = append(j.warnings, fmt.Sprintf("%s was dropped: it is gated by %s, and %s is %s", fieldPath(f.Path), f.Gate, permit.Feature, permit.Permission))
	}
	return nil
}

func turnOn(gate string, permit Permit) string {
	return fmt.Sprintf("turn it on with --feature-gates=%s=true of the server, or where its status says that it is dynamic with spec.desired: Enabled of the Feature %s",
		gate, permit.Feature)
}

// NotServed returns what those are told who ask for a resource whose feature is off: that there is none.
func NotServed(resource schema.GroupResource, verb string) *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(404, verb, resource, "", "", 0, true)
}

// fieldPath returns the path as users know it: spec.parts[*].material.
func fieldPath(path []string) *field.Path {
	var out *field.Path
	for _, step := range path {
		switch {
		case step == gatedfield.EachItem || step == gatedfield.EachValue:
			out = out.Key("*")
		case out == nil:
			out = field.NewPath(step)
		default:
			out = out.Child(step)
		}
	}
	return out
}

// isWithin tells whether a path is at one of the given ones or below it.
func isWithin(paths [][]string) func(path []string) bool {
	return func(path []string) bool {
		return slices.ContainsFunc(paths, func(parent []string) bool {
			return len(path) >= len(parent) && strings.Join(path[:len(parent)], "\x00") == strings.Join(parent, "\x00")
		})
	}
}
