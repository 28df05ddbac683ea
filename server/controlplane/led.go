// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/server/controlplane/controllers/availability"
	"github.com/kube-annex/annex/server/controlplane/controllers/bootstrappolicy"
	"github.com/kube-annex/annex/server/controlplane/controllers/flowcontrol"
	"github.com/kube-annex/annex/server/controlplane/controllers/garbagecollection"
	"github.com/kube-annex/annex/server/controlplane/controllers/roleaggregation"
)

// aloneRetry is how soon controllers that ended are started again where there are no Leases.
const aloneRetry = time.Second

// term is what the controllers of one term share, with the clients of one of them.
type term struct {
	clients
	// informers and serviceInformers are started when all controllers have been made.
	informers        informers.SharedInformerFactory
	serviceInformers aggregatorinformers.SharedInformerFactory
}

// clients act as one user.
type clients struct {
	config   *rest.Config
	client   kubernetes.Interface
	services aggregatorclient.Interface
}

// newTerm makes the informers. They are shared, so no controller's own account could read for all: they read as one that may read what
// they follow, and write nothing.
func (s *Server) newTerm(config *rest.Config) (*term, error) {
	reading, err := s.clientsOf(config, bootstrappolicy.InformersAccount)
	if err != nil {
		return nil, err
	}
	return &term{
		clients:          reading,
		informers:        informers.NewSharedInformerFactoryWithOptions(listed{reading.client}, informerResync, informers.WithTransform(withoutManagedFields)),
		serviceInformers: aggregatorinformers.NewSharedInformerFactory(listedServices{reading.services}, informerResync),
	}, nil
}

// clientsOf returns clients that act as a service account in kube-system, which has its rights from the start. Where there are no roles
// to give it any, they act as the server itself.
func (s *Server) clientsOf(config *rest.Config, account string) (clients, error) {
	if s.options.serve(roleKinds...) {
		config = rest.CopyConfig(config)
		config.Impersonate.UserName = serviceaccount.MakeUsername(metav1.NamespaceSystem, account)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("make the client of %s: %w", account, err)
	}
	services, err := aggregatorclient.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("make the client for APIServices of %s: %w", account, err)
	}
	return clients{config: config, client: client, services: services}, nil
}

// ledController runs in one replica at a time.
type ledController struct {
	name string
	// account is the service account in kube-system as which it acts, by the name that it has in Kubernetes; package bootstrappolicy has
	// what it may do.
	account string
	// on tells whether the server has what it needs.
	on func(*Server) bool
	// new returns what runs it.
	new func(*Server, *term) (func(context.Context) error, error)
}

// flowControlController is the one whose work readiness waits for.
const flowControlController = "flow-control-objects"

// ledControllers are all of them.
func ledControllers() []ledController {
	return []ledController{
		{"remote-availability", "remote-availability", func(s *Server) bool { return !s.options.WithoutAggregator }, (*Server).availability},
		{flowControlController, flowControlController, func(s *Server) bool { return s.options.queues() }, (*Server).flowControl},
		{"namespace-deletion", "namespace-controller", serving(namespaceKind), (*Server).namespaceDeletion},
		{"default-accounts", "service-account-controller", serving(namespaceKind, serviceAccountKind), (*Server).defaultAccounts},
		{"root-ca", "root-ca-cert-publisher",
			func(s *Server) bool { return s.rootCA != nil && s.options.serve(namespaceKind, configMapKind) }, (*Server).publishRootCA},
		{"token-secrets", "tokens-controller",
			func(s *Server) bool { return s.tokens.Issues() && s.options.serve(serviceAccountKind, secretKind) }, (*Server).tokenSecrets},
		{"garbage-collection", "generic-garbage-collector", func(*Server) bool { return true }, (*Server).garbageCollection},
		{"certificate-signer", "certificate-controller",
			func(s *Server) bool { return s.options.serve(signingKind) && s.options.Signing.signs() }, (*Server).certificateSigner},
		{"certificate-cleaner", "certificate-cleaner", serving(signingKind), (*Server).certificateCleaner},
		{"quota", "resourcequota-controller", serving(quotaKind, namespaceKind), (*Server).quota},
		{"storage-migration", "storage-version-migrator-controller", serving(migrationKind), (*Server).storageMigration},
		{"policy-status", "validatingadmissionpolicy-status-controller", serving(policyKind), (*Server).policyStatus},
		{"expired-identities", "expired-identities", serving(namespaceKind, leaseKind), (*Server).expiredIdentities},
		{"role-aggregation", "clusterrole-aggregation-controller", serving(clusterRoleKind), (*Server).roleAggregation},
	}
}

func controllerNames() []string {
	var names []string
	for _, controller := range ledControllers() {
		names = append(names, controller.name)
	}
	return names
}

func serving(kinds ...schema.GroupResource) func(*Server) bool {
	return func(s *Server) bool { return s.options.serve(kinds...) }
}

// led makes the controllers of one term, with informers of their own. Each acts as an account of its own, and is left out where what it
// needs is switched off.
func (s *Server) led(config *rest.Config) ([]leadership.Runner, error) {
	t, err := s.newTerm(config)
	if err != nil {
		return nil, err
	}
	runners := []leadership.Runner{leadership.Informers("informers", t.informers), leadership.Informers("apiservices", t.serviceInformers)}
	for _, next := range ledControllers() {
		if !next.on(s) || !s.options.runs(next.name) {
			continue
		}
		own := *t
		if own.clients, err = s.clientsOf(config, next.account); err != nil {
			return nil, err
		}
		run, err := next.new(s, &own)
		if err != nil {
			return nil, fmt.Errorf("make the controller %s: %w", next.name, err)
		}
		runners = append(runners, leadership.Runner{Name: next.name, Run: run})
	}
	return runners, nil
}

func (s *Server) availability(t *term) (func(context.Context) error, error) {
	return availability.New(t.serviceInformers.Apiregistration().V1().APIServices(), t.services.ApiregistrationV1(), s.servers).Run, nil
}

func (s *Server) garbageCollection(t *term) (func(context.Context) error, error) {
	controller, err := garbagecollection.New(t.config)
	if err != nil {
		return nil, err
	}
	return s.onceReady(controller.Run), nil
}

func (s *Server) roleAggregation(t *term) (func(context.Context) error, error) {
	controller, err := roleaggregation.New(t.client.RbacV1(), t.informers.Rbac().V1().ClusterRoles())
	if err != nil {
		return nil, err
	}
	return controller.Run, nil
}

func (s *Server) flowControl(t *term) (func(context.Context) error, error) {
	return flowcontrol.New(t.client.FlowcontrolV1(), t.informers.Flowcontrol().V1(), s.options.FlowSchemas).Run, nil
}

// alone runs the controllers without a Lease, again and again.
func (s *Server) alone(ctx context.Context, config *rest.Config) {
	for ctx.Err() == nil {
		if err := s.onePass(ctx, config); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Controllers ended, and are started again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(aloneRetry):
		}
	}
}

// onePass runs the controllers until the context or one of them ends.
func (s *Server) onePass(ctx context.Context, config *rest.Config) error {
	runners, err := s.led(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, runner := range runners {
		running.Go(func() { cancel(fmt.Errorf("%s ended: %w", runner.Name, runner.Run(ctx))) })
	}
	running.Wait()
	return context.Cause(ctx)
}

// listed and listedServices make informers list before they watch. client-go's streaming list, when the server is away, sleeps
// for up to a minute without looking at its context (Reflector.watchList), longer than a term gets to stop.
type listed struct{ kubernetes.Interface }

// IsWatchListSemanticsUnSupported is how informers find out.
func (listed) IsWatchListSemanticsUnSupported() bool { return true }

type listedServices struct{ aggregatorclient.Interface }

// IsWatchListSemanticsUnSupported is how informers find out.
func (listedServices) IsWatchListSemanticsUnSupported() bool { return true }
