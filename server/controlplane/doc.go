// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane is a Kubernetes-style control plane without nodes, pods and services. It is built on published libraries only.
//
// Its construction follows kube-apiserver: Options are completed (options.go); Server.Run configures three servers (config.go), creates them
// (serverchain.go) and the controllers (controllers.go), and runs all of them (run.go). It does all this in Run, since the libraries start
// goroutines in constructors, and returns when everything it started has ended.
//
// The servers share one listener and one handler chain (package server/internal/filters). Each delegates to the next:
//
//	aggregator → built-in resources (registry/native) → custom resources → 404
//
// Requests for APIServices whose server runs in the same process (Options.LocalDispatch) need no connection.
//
// Options.AdditionalGroups adds resources to the built-in ones. Options.DisabledResources, DisableCustomResources and DisableAggregator remove
// resources, and with them the parts of the server that need them: without Namespace no namespaces are created, without FlowSchema and
// PriorityLevelConfiguration only the number of requests is limited, and without Lease the leader's controllers run in every replica, so that
// there can be only one.
//
// # Admission
//
// Writes of all three servers pass the plugins of package server/internal/admission: NamespaceLifecycle, those of Options.Admission, and the
// policies and webhooks that are configured in this API. Plugins whose resources are disabled are off. Options.ServiceResolver resolves the
// services of webhooks, as those of APIServices; default/kubernetes is the control plane itself.
//
// CEL expressions of policies, match conditions and CustomResourceDefinitions read quantities within the limits of registry/quantities.
// Options.Complete sets these limits for all CEL of k8s.io/apiserver in the process, since the library has one environment.
//
// # Controllers
//
// The table controllerDescriptors lists all controllers. Those that need one writer run in the leader only, under the Lease
// kube-system/annex-controlplane; /healthz/leadership serves the roles of the process, and a follower is ready. Each term has informers of its own
// (package controllers/leadership).
//
//   - remote-availability: the condition Available of APIServices of extension servers.
//   - flow-control-objects: the suggested FlowSchemas and PriorityLevelConfigurations, and Options.FlowSchemas.
//   - namespace-deletion: the content of namespaces that are being deleted, and the namespaces themselves.
//   - default-accounts: the ServiceAccount "default" of each namespace.
//   - root-ca: the ConfigMap kube-root-ca.crt of each namespace.
//   - token-secrets: tokens in Secrets, which are deleted with their account.
//   - garbage-collection: dependents without owners, and deletion in the foreground and with orphans.
//   - certificate-signer and certificate-cleaner: client certificates for approved CertificateSigningRequests, and the deletion of old requests.
//   - quota: the usage in the status of ResourceQuotas.
//   - storage-migration: objects are written again, in the current storage version and encryption.
//   - policy-status: type checks of ValidatingAdmissionPolicies.
//   - expired-identities: the deletion of the Leases of replicas that have ended.
//   - role-aggregation: the rules of aggregated ClusterRoles.
//
// Each acts as a service account of its own in kube-system, with the name that it has in Kubernetes and the rights of the role
// system:controller:<account> (package bootstrappolicy). Objects that several of them read are read as the account shared-informers. The server
// impersonates these accounts, so the audit log has both names. Their requests are queued with those of other service accounts in kube-system,
// apart from requests of users. Without the resources of rbac.authorization.k8s.io they act as the server itself.
//
// The other controllers run in every replica, as the server itself, and write without a term. They are idempotent, use optimistic locking, and
// also run in every replica of kube-apiserver:
//
//   - system-namespaces: the Lease needs its namespace.
//   - apiservice-registration: the built-in APIServices depend on the version of the replica.
//   - apiserver-lease: the Lease with the identity of this replica.
//   - cluster-authentication-trust: each replica publishes the authorities that it trusts, together with those of other replicas.
//   - bootstrap-policy: only administrators have rights before the bootstrap roles exist, and the leader is none.
//   - controllers of the libraries: names, conditions, API and OpenAPI of CustomResourceDefinitions, discovery and OpenAPI aggregation, the
//     availability of local APIServices, and priority and fairness. They fill the handlers of their replica.
//
// When the context of Server.Run ends, the controllers stop and the elector releases its Lease through the server, which serves until then, but
// at most for Leadership.Timings.StopTimeout. Then the server stops.
//
// # Authentication and authorization
//
// Callers are authenticated by client certificates, by a front proxy with such a certificate, by tokens of service accounts (package
// serviceaccounts), and by external issuers and a webhook (Options.ExternalUsers); anonymous callers may get the health paths only. Authorizers
// are called in this order: the group system:masters, to which the server itself belongs, may do everything; roles and their bindings decide
// (package rbac); then the webhook and Options.Authorizers are called. A server that has just started delays requests until it has read the
// roles, and answers probes meanwhile. If one of the four resources of rbac.authorization.k8s.io is disabled, roles are not evaluated.
package controlplane
