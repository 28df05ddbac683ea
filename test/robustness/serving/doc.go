// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serving tests what clients notice when something breaks between them and the servers, or between the servers: connections,
// the host, its authorizer, certificates, replicas, file descriptors. Servers are processes of their own. Each row of the table in
// test/robustness/README.md is a test, which runs small by itself and in full with -full; what happens follows from -seed as far as it can.
package serving
