// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane is a Kubernetes-style control plane without nodes, pods and services, built on the published
// libraries only.
//
// A request passes three servers that share one listener and one handler chain: the aggregator, which routes APIServices
// and proxies remote ones; the native kinds of registry/native; and custom resources. What none of them knows is a 404.
//
//	aggregator → native kinds → custom resources → 404
//
// Remote servers that are in this process after all (Options.InProcess) get their requests without a connection; see package inprocess.
//
// Options.Groups adds kinds of one's own to the native ones. Custom resources and the aggregator can be left out, and the rest is served as
// before. Options.Without leaves native kinds out, and what needs one that is not served is off, too: there are no namespaces to keep without
// Namespace, requests are limited by number without FlowSchema and PriorityLevelConfiguration, and controllers run in every replica without
// Lease, so that there can be but one.
//
// Server.Run builds all three, since the libraries start goroutines in constructors, and returns when everything it
// started has ended.
//
// # Admission
//
// Writes of all three servers pass the plugins of package server/admission: NamespaceLifecycle, what Options.Admission adds, and the policies
// and webhooks that this API itself configures. A plugin whose kinds are switched off is off. Services of webhooks are found as those of
// APIServices are, by Options.ServiceResolver; default/kubernetes is the control plane itself.
//
// # Controllers
//
// Those that write and need one writer run in one replica at a time: each of their terms (package controllers/leadership) has
// informers of its own, and a replica that follows has none. They are one group under the Lease kube-system/annex-controlplane;
// /healthz/leadership tells who leads, and a follower is ready.
//
//   - availability: whether remote extension servers answer, into the status of APIServices.
//   - flowcontrol: the FlowSchemas and PriorityLevelConfigurations that every control plane has, and those of Options.FlowSchemas.
//   - roleaggregation: the rules of aggregated ClusterRoles.
//   - namespaces: what is in namespaces that are being deleted, of kinds of all servers, and then the namespaces themselves.
//   - garbagecollection: dependents whose owners are gone, of kinds of all servers, and deletions in the foreground and those that orphan.
//   - certificates: client certificates for CertificateSigningRequests that are approved, and the removal of requests nobody needs.
//   - quota: what is used of ResourceQuotas.
//   - storagemigration: objects stored anew, in the version and encryption of now.
//   - policystatus: type checks of ValidatingAdmissionPolicies.
//   - identity (its collector): Leases of replicas that are no more.
//   - defaultaccounts: the ServiceAccount "default" of each namespace.
//   - rootca: the ConfigMap kube-root-ca.crt of each namespace, by which clients know the server.
//   - tokensecrets: what is in Secrets with tokens, which go with their account.
//
// Each of these acts as a service account of its own in kube-system, by the name that it has in Kubernetes, with the rights of a role
// system:controller:<account> and no others (package bootstrappolicy). What several of them follow is read by one more account,
// shared-informers, which may read just that. The server itself, an administrator, impersonates them: the audit log has both names. Their
// requests queue with those of other service accounts in kube-system, apart from users'. Without the kinds of rbac.authorization.k8s.io
// they act as the server itself.
//
// The others run in every replica, as the server itself, and carry no term. They are idempotent, lock optimistically, and are what
// upstream runs in every replica, too:
//
//   - naming, establishing and approval of CustomResourceDefinitions, and the API and OpenAPI of each: a replica has to serve
//     what is defined, and its requests wait for conditions that it sets itself.
//   - discovery and OpenAPI aggregation: they write nothing, and fill this replica's handlers.
//   - local availability: local APIServices are answered by each replica itself.
//   - autoregister: what is built in, and what crdregistration tells it in memory, depends on the replica's version.
//   - crdregistration: it writes nothing by itself.
//   - priority and fairness: each replica queues its own requests, and reports in fields of its own.
//   - systemnamespaces: no Lease can be made before its namespace exists.
//   - identity (its renewer): the Lease that tells clients of this replica.
//   - bootstrappolicy: nobody but administrators may do anything before its roles are there, whoever leads included.
//   - authenticationtrust: each replica publishes whom it trusts itself, next to what others have published.
//
// When the server is told to stop, the candidate stops its group and gives the Lease back through the server, which goes on
// serving for as long, and at most Leadership.Timings.StopTimeout. Then the server stops.
//
// # Who may do what
//
// Callers are authenticated by client certificates, by a front proxy that has one, by tokens of service accounts (package
// serviceaccounts), or by those whom a configuration file or a webhook knows (package externalusers); without any, they reach health paths
// only. What they may do is asked in turn: the group system:masters, and with it the server itself, may do everything; roles and their
// bindings decide (package rbac); then a webhook, if there is one, and the authorizers given in code. A server that has just started lets
// requests wait until it has read the roles, and answers probes meanwhile. Without the kinds of rbac.authorization.k8s.io, all four, the
// roles are left out of that.
package controlplane
