// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package authentication authenticates requests: by client certificate (certificates.go), by the headers of a front proxy (certificates.go,
// hosttrust.go), and by bearer token of an external issuer or webhook (users.go).
//
// HostTrust is the configuration that a cluster publishes for its extension apiservers. Issuers of tokens, such as OpenID Connect
// providers, are in a file with an AuthenticationConfiguration, as kube-apiserver reads it:
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#using-authentication-configuration. The file is reloaded when it
// changes; an invalid version is reported and leaves the last valid one in place.
package authentication
