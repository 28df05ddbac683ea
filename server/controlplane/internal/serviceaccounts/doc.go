// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccounts issues tokens of ServiceAccounts and tells whose token it is that a request brings.
//
// Tokens are JSON Web Tokens with the claims that a kube-apiserver gives them, so that whoever reads those reads these. They are
// signed with one key and verified by several, which is how keys are replaced: the new key's public half is made known to every
// replica and reader first (--service-account-key-file), then it signs, and the old one goes when the tokens it has signed have
// expired.
//
// A token is good while its account exists, and the Secret it is bound to, each with the uid that it had when the token was
// issued. Both are read from the store for every request and not from a cache: a token works as soon as it is issued, and one of
// a deleted account fails as soon as it is deleted.
//
// Tokens in Secrets of the type kubernetes.io/service-account-token never expire, and are good while the Secret holds them.
package serviceaccounts
