// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server serves the kinds under test/integration/gatedfields/api as a third party would, beside the Features that decide about their
// gated fields. All of it goes through what other projects can import.
package server

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	openapicommon "k8s.io/kube-openapi/pkg/common"

	featuresinstall "github.com/kube-annex/annex/apis/features/install"
	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/apis/multicluster"
	multiclusterinstall "github.com/kube-annex/annex/apis/multicluster/install"
	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	annexopenapi "github.com/kube-annex/annex/generated/openapi"
	"github.com/kube-annex/annex/registry/features"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/server/featuregating"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/openapi"
	"github.com/kube-annex/annex/test/integration/gatedfields/api/install"
	"github.com/kube-annex/annex/test/integration/gatedfields/api/v1alpha1"
	widgetopenapi "github.com/kube-annex/annex/test/integration/gatedfields/openapi"
)

const (
	// Namespace is where the Features are that decide about Widgets.
	Namespace = "widget-system"
	// Claims gates the resource clusterclaims.
	Claims = "Claims"
)

var (
	// WidgetResource has the gated fields.
	WidgetResource = v1alpha1.SchemeGroupVersion.WithResource("widgets")
	// ClaimResource is gated as a whole, and another resource of its group, clusteridreservations, is not.
	ClaimResource = multiclusterv1alpha1.SchemeGroupVersion.WithResource("clusterclaims")
)

var widgets = resource.Kind[*v1alpha1.Widget]{
	Plural:         "widgets",
	Singular:       "widget",
	NewList:        func() runtime.Object { return &v1alpha1.WidgetList{} },
	GatedFields:    v1alpha1.GatedFields(),
	CreateOnUpdate: true,
	Subresources: []resource.Subresource[*v1alpha1.Widget]{{
		Name:   "size",
		Fields: [][]string{{"spec", "width"}},
		Take:   func(into, from *v1alpha1.Widget) { into.Spec.Width = from.Spec.Width },
	}, {
		Name:   "paint",
		Fields: [][]string{{"spec", "color"}},
		Take:   func(into, from *v1alpha1.Widget) { into.Spec.Color = from.Spec.Color },
	}},
}

var claims = resource.Kind[*multicluster.ClusterClaim]{
	Plural:         "clusterclaims",
	Singular:       "clusterclaim",
	Scope:          resource.Cluster,
	NewList:        func() runtime.Object { return &multicluster.ClusterClaimList{} },
	Gate:           Claims,
	CreateOnUpdate: true,
}

var reservations = resource.Kind[*multicluster.ClusterIDReservation]{
	Plural:   "clusteridreservations",
	Singular: "clusteridreservation",
	Scope:    resource.Cluster,
	NewList:  func() runtime.Object { return &multicluster.ClusterIDReservationList{} },
}

// Server is a running server.
type Server struct {
	*resourcetest.Server
	Follower  *features.Follower
	Publisher *openapi.Publisher
}

// Options say what is special about a server.
type Options struct {
	// Own has the gates that the process has turned on itself.
	Own map[string]bool
	// Prefix is where keys begin in the package's etcd; replicas name the same one.
	Prefix string
	// Etcd is used in place of the package's; nil is that.
	Etcd *clientv3.Client
	// Around puts something around the permits that the widgets ask; nil does not.
	Around func(resource.Permits) resource.Permits
	// Ungated serves widgets without asking anything.
	Ungated bool
	// Reporters keeps the signs of life of those who report; nil keeps none.
	Reporters features.Reporters
}

// Start serves until the test ends.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	scheme := resource.NewScheme(featuresinstall.Install, multiclusterinstall.Install, install.Install)
	gating := featuregating.NewGating(Namespace, gates.Gated{
		Fields:    v1alpha1.GatedFields(),
		Resources: []gates.GatedResource{{Gate: Claims, GroupVersionResource: ClaimResource}},
	}, func(gate string) bool { return options.Own[gate] }, nil)
	var asked resource.Permits = gating.Permits
	if options.Around != nil {
		asked = options.Around(gating.Permits)
	}
	out := &Server{Follower: gating.Follower, Publisher: gating.Publisher}
	out.Server = resourcetest.Start(t, resourcetest.Options{
		Scheme:      scheme,
		Codecs:      serializer.NewCodecFactory(scheme),
		Definitions: definitions,
		Prefix:      options.Prefix,
		Etcd:        options.Etcd,
		Before: []resourcetest.Group{
			{Version: featuresv1alpha1.SchemeGroupVersion, Install: func(group *resource.Group) error {
				return gating.Permits.InstallWith(group, options.Reporters)
			}},
			{Version: multiclusterv1alpha1.SchemeGroupVersion, Install: func(group *resource.Group) error {
				return errors.Join(claims.Install(group.Gate(asked)), reservations.Install(group))
			}},
		},
		Version: v1alpha1.SchemeGroupVersion,
		Install: func(group *resource.Group) error {
			if !options.Ungated {
				group.Gate(asked)
			}
			return widgets.Install(group)
		},
		Handler: func(api http.Handler, config *genericapiserver.Config) http.Handler {
			return gating.WithGatedResources(api, config.Serializer)
		},
		Configure: func(config *genericapiserver.Config) {
			openapi.Apply(config, "widgets", definitions, scheme)
			gating.ApplyTo(config)
		},
		Installed: gating.Publisher.Install,
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { gating.Follower.Run(ctx) })
	t.Cleanup(running.Wait)
	t.Cleanup(stop)
	return out
}

// Key returns where in etcd an object is.
func (s *Server) Key(resource schema.GroupResource, namespace, name string) string {
	return s.Prefix + "/" + resource.Group + "/" + resource.Resource + "/" + namespace + "/" + name
}

func definitions(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	out := annexopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(out, widgetopenapi.GetOpenAPIDefinitions(ref))
	return out
}
