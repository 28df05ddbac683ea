// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package featureobserver fills in the Features of components that do not report by themselves: it reads the metric
// kubernetes_feature_enabled, which every Kubernetes component since 1.26 has on its /metrics page, and keeps one Feature a gate,
// with source Observed.
//
// # Whose Features
//
// It writes Features that nobody has announced and those it has written before. One with another source is left alone. Of a
// Feature it never touches spec, and of status.uses only what it wrote itself: entries whose reporter ends with /metrics. Others
// come from FeatureReports and stay.
//
// # What the state follows
//
// Where components see a gate differently, the state follows kube-apiserver; where kube-apiserver does not know the gate, the
// first by name of the components that do. Where instances of that component differ among themselves, as during a rolling
// restart, the state stays as it was until they agree; before there was one, the highest version is believed, and Enabled of two.
// Conflict names everyone. Nothing is stored about what is not known: default stays empty, and whether an upgrade is safe is Unknown.
//
// # What is read
//
// kube-apiserver is read through the API; behind a load balancer that is whichever replica answers. Endpoints for the component
// kube-apiserver take its place, so one for each replica shows them all. What a page that cannot be read said last stays, also
// over a restart of the observer: entries of its component are then kept as they are stored.
//
// This package is not a stable API.
package featureobserver
