// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi puts together how a server describes its API to clients such as kubectl explain.
//
// A Publisher takes the place of what a generic apiserver does about OpenAPI by itself. What is gated is published only while
// its feature permits it, which may change at any time while the server runs:
//
//	publisher := openapi.NewPublisher(gates.Gated{Fields: zz_generated.GatedFields()}, permitted)
//	openapi.Apply(&config.Config, "Example", definitions, scheme)
//	publisher.ApplyTo(&config.Config)
//	server, err := config.Complete().New("example", genericapiserver.NewEmptyDelegate())
//	// … install all API groups, and then:
//	err = publisher.Install(server)
//	// … and whenever a feature has changed:
//	publisher.Publish(permitted)
//
// Documents are built when somebody asks for them or their hashes, and kept compressed: built ones would take more memory than all else
// that a server of a few kinds has, and most are never read. Without anything gated, that is what a Publisher is for.
//
// Only what is published changes. The definitions that server-side apply knows fields from stay complete, because objects
// in storage may have a field that nobody may use at present.
//
// A document's URL bears its hash. Where the hash is not, or no longer, that of the document, a generic apiserver answers with
// a redirect to the right one; kube-apiserver refuses redirects of servers behind it, and kubectl explain would fail until
// it has read the new hashes. A Publisher answers with the document as it is.
//
// A server behind an aggregator runs an Announcer as well. It touches the APIServices of the versions whose documents have
// changed, upon which aggregators read discovery and OpenAPI v2 again. They read the hashes of OpenAPI v3 every 60 seconds
// (kube-apiserver 1.37), and there is nothing that makes them do so earlier; the documents themselves are always passed on as
// they are. Annex's own control plane asks for the hashes when somebody asks it.
//
// This package is not a stable API.
package openapi
