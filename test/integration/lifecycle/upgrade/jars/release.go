// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package jars

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/registry/features"
	"github.com/kube-annex/annex/registry/native/coordination"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

// Feature is the name of the feature that permits Jars.
const Feature = "Jars"

// changed is the release whose Jars the former ones cannot read.
const changed = "v1.5.0"

// Release is one of the versions of the server.
type Release string

// The releases.
const (
	Alpha Release = "v1.4.0"
	Beta  Release = changed
)

func (r Release) version() schema.GroupVersion {
	if r == Beta {
		return betaVersion
	}
	return alphaVersion
}

func (r Release) other() schema.GroupVersion {
	if r == Beta {
		return alphaVersion
	}
	return betaVersion
}

// Options say which replica it is.
type Options struct {
	Release   Release
	Instance  string
	Namespace string
	// Prefix is where all replicas store.
	Prefix        string
	AllowDataLoss bool
	Timings       lifecycle.Timings
	// RoundTripper is put around what the engine's clients use; Ran is called when a task begins. Both are optional.
	RoundTripper func(http.RoundTripper) http.RoundTripper
	Ran          func(instance, task string)
}

// feature is what each release says of its feature. What is to be done about the change of version it says in the same words; what
// it does not do itself, it says as well, for SafeToDowngrade.
func (o Options) feature(client dynamic.Interface) lifecycle.Feature {
	clearing := func(version schema.GroupVersion) []lifecycle.Task {
		return []lifecycle.Task{o.told(lifecycle.ClearCollection(client.Resource(resourceOf(version)), o.AllowDataLoss))}
	}
	out := lifecycle.Feature{
		Name: Feature, Default: featuresv1alpha1.ValueDisabled, Configured: featuresv1alpha1.ValueEnabled,
		Source: featuresv1alpha1.SourceCommandLine, Stability: featuresv1alpha1.StabilityAlpha,
		Versions: []lifecycle.VersionChange{{At: changed, Upgrade: clearing(alphaVersion), Downgrade: clearing(betaVersion)}},
	}
	if o.Release == Beta {
		out.Stability = featuresv1alpha1.StabilityBeta
	}
	return out
}

func (o Options) told(task lifecycle.Task) lifecycle.Task {
	run := task.Run
	task.Run = func(ctx context.Context, progress *lifecycle.Progress) error {
		if o.Ran != nil {
			o.Ran(o.Instance, task.Name)
		}
		return run(ctx, progress)
	}
	return task
}

// Serve serves until the test ends, or the scope that the test has made for it.
func Serve(t testing.TB, o Options) *rest.Config {
	t.Helper()
	scheme := o.Release.scheme()
	codecs := serializer.NewCodecFactory(scheme)
	permits := features.NewPermits(o.Namespace, func(string) bool { return false })
	var storage generic.RESTOptionsGetter
	return resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: codecs, Definitions: definitions, Prefix: o.Prefix,
		Configure: func(config *genericapiserver.Config) {
			storage = config.RESTOptionsGetter
			config.RESTOptionsGetter = place{storage, codecs, o.Release.version()}
		},
		Before: []resourcetest.Group{
			{Version: featuresv1alpha1.SchemeGroupVersion, Install: permits.Install},
			{Version: coordinationv1.SchemeGroupVersion, Install: resource.Installer(coordination.Kinds())},
			{Version: o.Release.other(), Install: func(group *resource.Group) error {
				there := resource.NewGroup(scheme, codecs, place{storage, codecs, o.Release.other()}, o.Release.other())
				if err := leftovers(o.Release).Install(there); err != nil {
					return err
				}
				group.Add("jars", there.Storage("jars"))
				return nil
			}},
		},
		Version: o.Release.version(),
		Install: func(group *resource.Group) error {
			group.Gate(permits)
			if o.Release == Beta {
				return kind[*BetaJar](&BetaJarList{}).Install(group)
			}
			return kind[*AlphaJar](&AlphaJarList{}).Install(group)
		},
	}).Config
}

// kind is the kind in a release's own version.
func kind[T resource.Object](list runtime.Object) resource.Kind[T] {
	return resource.Kind[T]{
		Plural: "jars", Singular: "jar", Gate: Feature, NewList: list.DeepCopyObject,
	}
}

// Run runs the engine of a replica, which talks to its own server.
func Run(ctx context.Context, o Options, server *rest.Config) error {
	config := rest.CopyConfig(server)
	if o.RoundTripper != nil {
		config.Wrap(o.RoundTripper)
	}
	client, err := dynamic.NewForConfig(config)
	annex, annexErr := versioned.NewForConfig(config)
	native, nativeErr := kubernetes.NewForConfig(config)
	if err = errors.Join(err, annexErr, nativeErr); err != nil {
		return fmt.Errorf("make clients: %w", err)
	}
	engine, err := lifecycle.New(lifecycle.Options{
		Component: "jars", Instance: o.Instance, Version: string(o.Release), Namespace: o.Namespace,
		Features: []lifecycle.Feature{o.feature(client)}, Client: annex, Leases: native.CoordinationV1(), Timings: o.Timings,
	})
	if err != nil {
		return err
	}
	return engine.Run(ctx)
}

// Resource returns where a release serves Jars, and its leftovers.
func (r Release) Resource() (own, leftovers schema.GroupVersionResource) {
	return resourceOf(r.version()), resourceOf(r.other())
}
