// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/internal/listbeforewatch"
	"github.com/kube-annex/annex/server/controlplane/bootstrappolicy"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/apiserverlease"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/availability"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/certificates"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/clusterauthenticationtrust"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/clusterroleaggregation"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/crdregistration"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/flowcontrol"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/garbagecollector"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/namespace"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/resourcequota"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/rootcacertpublisher"
	serviceaccountcontroller "github.com/kube-annex/annex/server/controlplane/internal/controllers/serviceaccount"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/serviceaccounttokens"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/storageversionmigrator"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/systemnamespaces"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/validatingadmissionpolicystatus"
)

const (
	// registrationWorkers is the number of APIServices that are written concurrently.
	registrationWorkers = 5
	// settleSingle and settleReplicated are the time until every replica has observed a change, for an embedded and for an external etcd. A
	// namespace is kept for so long after its deletion, so that concurrent creations are deleted with it.
	settleSingle     = time.Second
	settleReplicated = 5 * time.Second
	// flowControlController names the controller that a readiness check depends on.
	flowControlController = "flow-control-objects"
)

// controllerDescriptor describes a controller, like the type of this name in kube-controller-manager.
type controllerDescriptor struct {
	// name is the value in Options.DisabledControllers, and the name in logs and metrics.
	name string
	// account is the service account in kube-system of a controller that runs in the leader only; package bootstrappolicy has its roles. A
	// controller without an account runs in every replica, as the server itself, and cannot be disabled.
	account string
	// resources lists the built-in resources that the controller needs.
	resources []schema.GroupResource
	// isEnabled reports whether further requirements are met; nil if there are none.
	isEnabled func(*completedConfig) bool
	// newController creates the controller. It starts no work.
	newController func(*controllerContext) (*controller, error)
}

// controller is one that runs until its context ends.
type controller struct {
	// run is nil if there is only a readiness check.
	run func(context.Context) error
	// check is nil if readiness does not depend on the controller.
	check healthz.HealthChecker
}

// controllerContext is the input of constructors.
type controllerContext struct {
	*completedConfig
	chain *serverChain
	// ready is closed when the server is ready.
	ready      <-chan struct{}
	namespaces *systemnamespaces.Controller

	// clients act as the account of the controller, and informers as the account that reads for all controllers.
	clients          clients
	informers        informers.SharedInformerFactory
	serviceInformers aggregatorinformers.SharedInformerFactory
}

// controllerDescriptors lists all controllers.
func controllerDescriptors() []controllerDescriptor {
	type resources = []schema.GroupResource
	return []controllerDescriptor{
		{name: "system-namespaces", newController: newSystemNamespaces},
		{name: "apiservice-registration", isEnabled: (*completedConfig).aggregates, newController: newAPIServiceRegistration},
		{name: "apiserver-lease", resources: resources{namespaceKind, leaseKind}, newController: newAPIServerLease},
		{name: "cluster-authentication-trust", resources: resources{configMapKind}, newController: newClusterAuthenticationTrust},
		{name: "flow-control-existence", isEnabled: (*completedConfig).createsFlowSchemas, newController: newFlowControlExistence},
		{name: "bootstrap-policy", isEnabled: func(c *completedConfig) bool { return c.policy != nil }, newController: newBootstrapPolicy},

		{name: "remote-availability", account: "remote-availability", isEnabled: (*completedConfig).aggregates, newController: newRemoteAvailability},
		{name: flowControlController, account: flowControlController, isEnabled: (*completedConfig).createsFlowSchemas, newController: newFlowControl},
		{name: "namespace-deletion", account: "namespace-controller", resources: resources{namespaceKind}, newController: newNamespaceDeletion},
		{name: "default-accounts", account: "service-account-controller", resources: resources{namespaceKind, serviceAccountKind}, newController: newDefaultAccounts},
		{name: "root-ca", account: "root-ca-cert-publisher", resources: resources{namespaceKind, configMapKind},
			isEnabled: func(c *completedConfig) bool { return c.rootCA != nil }, newController: newRootCAPublisher},
		{name: "token-secrets", account: "tokens-controller", resources: resources{serviceAccountKind, secretKind},
			isEnabled: func(c *completedConfig) bool { return c.authentication.tokens.Issues() }, newController: newTokenSecrets},
		{name: "garbage-collection", account: "generic-garbage-collector", newController: newGarbageCollector},
		{name: "certificate-signer", account: "certificate-controller", resources: resources{signingKind},
			isEnabled: func(c *completedConfig) bool { return c.options.Signing.signs() }, newController: newCertificateSigner},
		{name: "certificate-cleaner", account: "certificate-cleaner", resources: resources{signingKind}, newController: newCertificateCleaner},
		{name: "quota", account: "resourcequota-controller", resources: resources{quotaKind, namespaceKind}, newController: newQuota},
		{name: "storage-migration", account: "storage-version-migrator-controller", resources: resources{migrationKind}, newController: newStorageMigrator},
		{name: "policy-status", account: "validatingadmissionpolicy-status-controller", resources: resources{policyKind}, newController: newPolicyStatus},
		{name: "expired-identities", account: "expired-identities", resources: resources{namespaceKind, leaseKind}, newController: newExpiredIdentities},
		{name: "role-aggregation", account: "clusterrole-aggregation-controller", resources: resources{clusterRoleKind}, newController: newRoleAggregation},
	}
}

// leaderControllerNames lists the controllers that can be disabled.
func leaderControllerNames() []string {
	var names []string
	for _, d := range controllerDescriptors() {
		if d.account != "" {
			names = append(names, d.name)
		}
	}
	return names
}

func (d controllerDescriptor) runs(c *completedConfig) bool {
	return c.options.runs(d.name) && c.options.serve(d.resources...) && (d.isEnabled == nil || d.isEnabled(c))
}

func (c *completedConfig) aggregates() bool { return !c.options.DisableAggregator }

func (c *completedConfig) createsFlowSchemas() bool {
	return c.options.queues() && c.options.runs(flowControlController)
}

// newReplicaControllers creates the controllers that run in every replica.
func newReplicaControllers(c *controllerContext) ([]*controller, error) {
	var all []*controller
	for _, d := range controllerDescriptors() {
		if d.account != "" || !d.runs(c.completedConfig) {
			continue
		}
		created, err := d.newController(c)
		if err != nil {
			return nil, fmt.Errorf("create controller %s: %w", d.name, err)
		}
		all = append(all, created)
	}
	return all, nil
}

// newLeaderControllers creates the controllers of one term, with informers of their own. The informers are shared, so they read as an account
// that may read what any of the controllers reads.
func newLeaderControllers(c *controllerContext, config *rest.Config) ([]leadership.Runnable, error) {
	config = rest.CopyConfig(config)
	config.Wrap(listbeforewatch.Transport)
	reader, err := c.clientsOf(config, bootstrappolicy.InformersAccount)
	if err != nil {
		return nil, err
	}
	shared := informers.NewSharedInformerFactoryWithOptions(reader.client, informerResync, informers.WithTransform(withoutManagedFields))
	services := aggregatorinformers.NewSharedInformerFactory(reader.services, informerResync)
	runners := []leadership.Runnable{leadership.Informers("informers", shared), leadership.Informers("apiservices", services)}
	for _, d := range controllerDescriptors() {
		if d.account == "" || !d.runs(c.completedConfig) {
			continue
		}
		account, err := c.clientsOf(config, d.account)
		if err != nil {
			return nil, err
		}
		created, err := d.newController(&controllerContext{
			completedConfig: c.completedConfig, chain: c.chain, ready: c.ready, namespaces: c.namespaces,
			clients: account, informers: shared, serviceInformers: services,
		})
		if err != nil {
			return nil, fmt.Errorf("create controller %s: %w", d.name, err)
		}
		runners = append(runners, leadership.Runnable{Name: d.name, Run: created.run})
	}
	return runners, nil
}

// clientsOf returns clients that act as a service account in kube-system. Without roles they act as the server itself.
func (c *completedConfig) clientsOf(config *rest.Config, account string) (clients, error) {
	if c.options.serve(roleKinds...) {
		config = rest.CopyConfig(config)
		config.Impersonate.UserName = serviceaccount.MakeUsername(metav1.NamespaceSystem, account)
	}
	created, err := newClients(config)
	if err != nil {
		return clients{}, fmt.Errorf("connect as service account %s: %w", account, err)
	}
	return created, nil
}

// onceReady delays a controller until this server is ready. Before, discovery lacks custom resources, and a controller that acts on
// discovery would miss them.
func (c *controllerContext) onceReady(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-c.ready:
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// settle returns the time until every replica has observed a change.
func (c *controllerContext) settle() time.Duration {
	if c.backend.StoreID != "" {
		return settleSingle
	}
	return settleReplicated
}

// selected returns informers of the objects with one value in a field. The shared informers hold all objects.
func (c *controllerContext) selected(field, value string) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(c.clients.client, informerResync, informers.WithTransform(withoutManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = fields.OneTermEqualSelector(field, value).String() }))
}

// withInformers runs the informers while run runs.
func withInformers(factory informers.SharedInformerFactory, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		factory.Start(ctx.Done())
		defer factory.Shutdown()
		defer cancel()
		return run(ctx)
	}
}

// withoutError adapts the Run of a controller that cannot fail.
func withoutError(run func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error {
		run(ctx)
		return nil
	}
}

func newSystemNamespaces(c *controllerContext) (*controller, error) {
	return &controller{run: withoutError(c.namespaces.Run), check: healthz.NamedCheck("system-namespaces", c.namespaces.Check)}, nil
}

// newAPIServiceRegistration creates an APIService for every group-version that is served here.
func newAPIServiceRegistration(c *controllerContext) (*controller, error) {
	services := c.serviceInformers.Apiregistration().V1().APIServices()
	registration := autoregister.NewAutoRegisterController(services, c.clients.services.ApiregistrationV1())
	local := localAPIServices(c.chain.native.ListedPaths(), c.options.priorities())
	for _, service := range local {
		registration.AddAPIServiceToSyncOnStart(service)
	}
	run := func(ctx context.Context) error {
		registration.Run(registrationWorkers, ctx.Done())
		return nil
	}
	if c.chain.customResources != nil {
		definitions := crdregistration.New(c.chain.customResources.Informers.Apiextensions().V1().CustomResourceDefinitions(), registration)
		run = afterDefinitions(definitions, run)
	}
	return &controller{run: run, check: healthz.NamedCheck("local-apiservices", allAvailable(services.Lister(), local))}, nil
}

// afterDefinitions runs the controller of definitions, and run once that has read all definitions.
func afterDefinitions(definitions *crdregistration.Controller, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var running sync.WaitGroup
		defer running.Wait()
		running.Go(func() { definitions.Run(ctx) })
		select {
		case <-definitions.Synced():
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func newAPIServerLease(c *controllerContext) (*controller, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host name: %w", err)
	}
	leases := c.clients.client.CoordinationV1().Leases(metav1.NamespaceSystem)
	return &controller{run: withoutError(apiserverlease.NewRenewer(leases, Name, c.native.APIServerID, hostname, c.namespaces.Exist()).Run)}, nil
}

func newClusterAuthenticationTrust(c *controllerContext) (*controller, error) {
	trust := clusterauthenticationtrust.New(c.clients.client, c.authentication.trust, c.namespaces.Exist())
	return &controller{run: withoutError(trust.Run), check: healthz.NamedCheck("authentication-trust", trust.Check)}, nil
}

func newFlowControlExistence(c *controllerContext) (*controller, error) {
	existence := flowcontrol.NewExistence(c.informers.Flowcontrol().V1(), c.options.FlowSchemas)
	return &controller{check: healthz.NamedCheck("flow-schemas", existence.Check)}, nil
}

func newBootstrapPolicy(c *controllerContext) (*controller, error) {
	run := func(ctx context.Context) { c.policy.Run(ctx, c.namespaces.Exist()) }
	return &controller{run: withoutError(run), check: healthz.NamedCheck("bootstrap-roles", c.policy.Check)}, nil
}

func newRemoteAvailability(c *controllerContext) (*controller, error) {
	services := c.serviceInformers.Apiregistration().V1().APIServices()
	return &controller{run: availability.New(services, c.clients.services.ApiregistrationV1(), c.remotes.servers).Run}, nil
}

func newFlowControl(c *controllerContext) (*controller, error) {
	return &controller{run: flowcontrol.New(c.clients.client.FlowcontrolV1(), c.informers.Flowcontrol().V1(), c.options.FlowSchemas).Run}, nil
}

func newNamespaceDeletion(c *controllerContext) (*controller, error) {
	deletion, err := namespace.New(c.clients.config, c.informers.Core().V1().Namespaces(), c.settle())
	if err != nil {
		return nil, err
	}
	return &controller{run: c.onceReady(deletion.Run)}, nil
}

func newDefaultAccounts(c *controllerContext) (*controller, error) {
	core := c.informers.Core().V1()
	return &controller{run: serviceaccountcontroller.New(c.clients.client.CoreV1(), core.Namespaces(), core.ServiceAccounts()).Run}, nil
}

func newRootCAPublisher(c *controllerContext) (*controller, error) {
	factory := c.selected(metav1.ObjectNameField, rootcacertpublisher.ConfigMapName)
	publisher := rootcacertpublisher.New(c.clients.client.CoreV1(), c.informers.Core().V1().Namespaces(), factory.Core().V1().ConfigMaps(), c.rootCA)
	return &controller{run: withInformers(factory, publisher.Run)}, nil
}

func newTokenSecrets(c *controllerContext) (*controller, error) {
	factory := c.selected("type", string(corev1.SecretTypeServiceAccountToken))
	secrets, err := serviceaccounttokens.New(c.clients.client.CoreV1(), c.informers.Core().V1().ServiceAccounts(), factory.Core().V1().Secrets(),
		c.authentication.tokens.IssueLegacy, c.rootCA)
	if err != nil {
		return nil, err
	}
	return &controller{run: withInformers(factory, secrets.Run)}, nil
}

func newGarbageCollector(c *controllerContext) (*controller, error) {
	collector, err := garbagecollector.New(c.clients.config)
	if err != nil {
		return nil, err
	}
	return &controller{run: c.onceReady(collector.Run)}, nil
}

func newCertificateSigner(c *controllerContext) (*controller, error) {
	signing := c.options.Signing
	authority := certificates.Authority{Issue: signing.issue, Validity: signing.Duration}
	return &controller{run: certificates.NewSigner(authority, c.informers.Certificates().V1().CertificateSigningRequests(), c.clients.client.CertificatesV1()).Run}, nil
}

func newCertificateCleaner(c *controllerContext) (*controller, error) {
	requests := c.informers.Certificates().V1().CertificateSigningRequests()
	return &controller{run: certificates.NewCleaner(requests, c.clients.client.CertificatesV1(), clock.RealClock{}).Run}, nil
}

func newQuota(c *controllerContext) (*controller, error) {
	quota, err := resourcequota.New(c.clients.config, c.informers.Core().V1().ResourceQuotas(), c.options.QuotaSyncPeriod)
	if err != nil {
		return nil, err
	}
	return &controller{run: c.onceReady(quota.Run)}, nil
}

func newStorageMigrator(c *controllerContext) (*controller, error) {
	migrator, err := storageversionmigrator.New(c.clients.config, c.informers.Storagemigration().V1().StorageVersionMigrations(), c.settle())
	if err != nil {
		return nil, err
	}
	return &controller{run: c.onceReady(migrator.Run)}, nil
}

func newPolicyStatus(c *controllerContext) (*controller, error) {
	policies := c.informers.Admissionregistration().V1().ValidatingAdmissionPolicies()
	return &controller{run: validatingadmissionpolicystatus.New(c.clients.client, policies).Run}, nil
}

func newExpiredIdentities(c *controllerContext) (*controller, error) {
	return &controller{run: apiserverlease.NewCollector(c.clients.client.CoordinationV1().Leases(metav1.NamespaceSystem), Name).Run}, nil
}

func newRoleAggregation(c *controllerContext) (*controller, error) {
	return &controller{run: clusterroleaggregation.New(c.clients.client.RbacV1(), c.informers.Rbac().V1().ClusterRoles()).Run}, nil
}
