// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gatedresources serves whole resources only while their features let them be seen. It is for any server that is built on the
// generic apiserver.
//
// A resource whose feature is Off is not there: discovery, old and aggregated, does not name it, requests for it get 404, and watches
// of it end. While its feature is TurningOff it is there, so that what is stored can be read, changed and removed; that nothing
// new is created is seen to by whoever stores it (registry/resource, Kind.Gate). OpenAPI is server/openapi's:
//
//	resources := gatedresources.New(gated.Resources, follower.Permission)
//	resources.ApplyTo(&config.Config)
//	handler = resources.WithGatedResources(handler, config.Serializer) // a filter, after authorization
//	publisher := openapi.NewPublisher(gated, resources.Published(follower.Permitted))
//	// … and whenever a feature has changed:
//	resources.Update()
//	publisher.Publish(resources.Published(follower.Permitted))
//
// Resources of the legacy group, below /api, cannot be gated.
//
// This package is not a stable API.
package gatedresources
