// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/apis/gatedfield"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/server/featuregating/gates"
)

// removalInterval is the interval at which objects are counted that users have to remove.
const removalInterval = 3 * time.Second

// Tools holds what tasks need.
type Tools struct {
	// Objects reaches all that the server stores, with all rights.
	Objects dynamic.Interface
	// Limiter keeps all tasks together below --task-qps; nil sets no limit.
	Limiter flowcontrol.RateLimiter
	// AllowDataLoss is --allow-data-loss, for lifecycle.ClearCollection.
	AllowDataLoss bool
}

// Tasks returns tasks of turning a feature on and off. Those of turning off come before those that clean up what the feature gates.
type Tasks func(Tools) (on, off []lifecycle.Task)

// ownFeatures returns the server's own gates as features.
func ownFeatures(c Config, o *Options, dynamic map[name]bool, tools Tools) ([]lifecycle.Feature, error) {
	var out []lifecycle.Feature
	for gate, spec := range gates.Own(c.Gates) {
		// The gate below has what the process is configured to; this one follows the Feature that is to follow it.
		f := lifecycle.Feature{
			Name: string(gate), Default: value(spec.Default), Configured: value(c.Gates.MutableVersionedFeatureGate.Enabled(gate)), Source: v1alpha1.SourceDefault,
			Stability: featuregate.StabilityOf(spec), Locked: spec.LockToDefault, Dynamic: dynamic[name{gates.Namespace, string(gate)}],
		}
		if gates.IsSet(c.Gates, gate) {
			f.Source = v1alpha1.SourceCommandLine
		}
		if more := o.Tasks[gate]; more != nil {
			f.On, f.Off = more(tools)
		}
		if err := addCleaning(&f, c, tools); err != nil {
			return nil, fmt.Errorf("find what to do about the feature %s: %w", gate, err)
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b lifecycle.Feature) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func value(enabled bool) v1alpha1.Value {
	if enabled {
		return v1alpha1.ValueEnabled
	}
	return v1alpha1.ValueDisabled
}

// addCleaning adds the tasks that follow from what the feature gates.
func addCleaning(f *lifecycle.Feature, c Config, tools Tools) error {
	resources, err := gatedBy(f.Name, c)
	if err != nil {
		return err
	}
	var used, removed []lifecycle.Kind
	var cleared []lifecycle.Gated
	for _, r := range resources {
		kind := lifecycle.Kind{Resource: r.GroupResource(), Client: tools.Objects.Resource(r.GroupVersionResource), Limiter: tools.Limiter}
		if !r.whole {
			kind.Uses = lifecycle.HasAny(slices.Concat(r.dropped, r.rejected)...)
		}
		used = append(used, kind)
		if !r.whole && len(r.rejected) > 0 {
			kind.Uses = lifecycle.HasAny(r.rejected...)
		}
		if r.whole || len(r.rejected) > 0 {
			// Whoever takes it out on a user's behalf does harm: without spec.canary, a feature is on for all.
			removed = append(removed, kind)
		}
		for _, field := range r.dropped {
			cleared = append(cleared, lifecycle.Gated{Field: field, Client: kind.Client})
		}
	}
	if len(removed) > 0 {
		f.Off = append(f.Off, lifecycle.WaitForRemoval(lifecycle.CountObjects(removed...), removalInterval))
	}
	if len(cleared) > 0 {
		f.Off = append(f.Off, lifecycle.ClearField(tools.Limiter, cleared...))
	}
	if len(used) > 0 {
		f.Count = lifecycle.CountObjects(used...)
	}
	return nil
}

// gatedResource is what a gate gates of one resource.
type gatedResource struct {
	schema.GroupVersionResource
	// whole means that the resource is gated as a whole; its gated fields do not matter then.
	whole             bool
	dropped, rejected []gatedfield.Field
}

// gatedBy returns what a gate gates.
func gatedBy(gate string, c Config) ([]*gatedResource, error) {
	var out []*gatedResource
	of := func(r schema.GroupVersionResource) *gatedResource {
		i := slices.IndexFunc(out, func(known *gatedResource) bool { return known.GroupVersionResource == r })
		if i < 0 {
			i, out = len(out), append(out, &gatedResource{GroupVersionResource: r})
		}
		return out[i]
	}
	for _, r := range c.Gated.Resources {
		if r.Gate == gate {
			of(r.GroupVersionResource).whole = true
		}
	}
	for _, field := range c.Gated.Fields {
		if field.Gate != gate {
			continue
		}
		r, ok := c.Resources[field.Kind]
		if !ok {
			return nil, fmt.Errorf("the server has no resource of kind %s, of which %s is gated", field.Kind, strings.Join(field.Path, "."))
		}
		switch into := of(r); {
		case into.whole:
		case field.WhenOff == gatedfield.Reject:
			into.rejected = append(into.rejected, field)
		default:
			into.dropped = append(into.dropped, field)
		}
	}
	return out, nil
}
