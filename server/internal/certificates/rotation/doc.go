// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rotation gives the extension apiserver serving certificates that renew themselves, and keeps the host's trust in
// step with them.
//
// There is a list of authorities, in a Secret that all replicas share or in a directory. Each replica signs certificates
// of its own with one of them, in memory. Whatever has used up two thirds of its life is made anew:
//
//   - a certificate is replaced while serving: connections that are open keep the old one, new ones get the new one;
//   - an authority gets a successor, which first only appears in the CA bundle of the APIServices. Certificates are signed
//     with it once the host has had time to read it. The predecessor stays in the bundle until it expires, so replicas need
//     not change over at the same moment.
//
// While the host is away, certificates are signed with the authorities as they were last read.
//
// The CA bundle is compared at each pass, so one that someone else has broken is right again soon.
package rotation
