// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apicompat sends the same requests to a real kube-apiserver and to our control plane, and wants the same answers: status code,
// reason, which fields are at fault, warnings, the object as it is returned and the table that kubectl shows of it.
//
// The requests are in corpus/<group, "core" for the legacy one>/<resource>.yaml, or <resource>.<what about it>.yaml. Each document is
// a case:
//
//	name: a webhook without side effects   # unique in the file
//	object: {apiVersion: …, kind: …, …}    # created; into the namespace "verdicts" unless it names one
//	then:                                  # optional: what happens to the object next, step by step
//	- patch: {…}                           # merge patch
//	- strategic: {…}                       # strategic merge patch
//	- json: [{…}]                          # JSON patch
//	- put: {…}                             # apiVersion, kind, name and resourceVersion are filled in where they are not given
//	  subresource: status                  # with all but delete
//	- apply: {…}                           # server-side apply; filled in as in put, but for the resourceVersion
//	  force: true
//	- delete: true
//	differs: why our answer is another one # and then it must be
//
// A string may have repetitions in it: ${ab*3} stands for ababab. Cases without then are dry runs. Cases whose objects have the same
// name take turns; all others run in parallel. Objects of cases with then are deleted at the end.
//
// One file alone: go test ./test/compatibility/apicompat -run 'TestCorpus/core/secrets'.
package apicompat
