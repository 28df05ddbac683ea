// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission builds the admission chain of a server from the plugins of k8s.io/apiserver, in the order that a kube-apiserver
// has them in:
//
//	NamespaceLifecycle → plugins of one's own → MutatingAdmissionPolicy → MutatingAdmissionWebhook →
//	ValidatingAdmissionPolicy → ValidatingAdmissionWebhook → plugins of one's own that come last
//
// Four of them act on what is configured in an API: that of the server itself, or that of the host of an extension apiserver, whose own
// admission does not see the objects of an extension. Each follows its configurations from Chain.Run on. Requests wait for the
// first look at them, for ten seconds at most, as they do in a kube-apiserver; then they are refused with 503. A plugin is made when there
// is something for it to do, so a server without webhooks and policies has the cost of six small informers alone, and its start does not
// wait for anything that the library polls.
//
// A host may lack a kind of configuration. It is asked again every minute, and the plugin is taken up when the kind appears, and
// given up when it goes away.
//
// Webhooks are called as a kube-apiserver calls them, with three restrictions: redirects are not followed, answers are limited in size, and
// credentials of the server itself are never sent to an address that comes from a name server.
package admission
