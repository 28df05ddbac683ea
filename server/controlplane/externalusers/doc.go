// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package externalusers authenticates users whom somebody else knows, by bearer tokens: issuers of JSON web tokens, as OpenID Connect
// providers are, and a webhook.
//
// The issuers are in a file with an AuthenticationConfiguration, as kube-apiserver reads it:
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#using-authentication-configuration. It is read again when it
// changes; a file that is not valid then is reported, and what was read before stays in force.
package externalusers
