// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/server/controlplane/controllers/availability"
	"github.com/kube-annex/annex/server/controlplane/controllers/flowcontrol"
	"github.com/kube-annex/annex/server/controlplane/controllers/garbagecollection"
)

// aloneRetry is how soon controllers that ended are started again where there are no Leases.
const aloneRetry = time.Second

// term is what the controllers of one term share.
type term struct {
	config   *rest.Config
	client   kubernetes.Interface
	services aggregatorclient.Interface
	// informers and serviceInformers are started when all controllers have been made.
	informers        informers.SharedInformerFactory
	serviceInformers aggregatorinformers.SharedInformerFactory
}

func newTerm(config *rest.Config) (*term, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client of controllers: %w", err)
	}
	services, err := aggregatorclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client for APIServices: %w", err)
	}
	return &term{
		config: config, client: client, services: services,
		informers:        informers.NewSharedInformerFactoryWithOptions(listed{client}, informerResync, informers.WithTransform(withoutManagedFields)),
		serviceInformers: aggregatorinformers.NewSharedInformerFactory(listedServices{services}, informerResync),
	}, nil
}

// ledController runs in one replica at a time.
type ledController struct {
	name string
	// on tells whether the server has what it needs.
	on func(*Server) bool
	// new returns what runs it.
	new func(*Server, *term) (func(context.Context) error, error)
}

// ledControllers are all of them.
func ledControllers() []ledController {
	return []ledController{
		{"remote-availability", func(*Server) bool { return true }, (*Server).availability},
		{"flow-control-objects", func(s *Server) bool { return s.options.queues() }, (*Server).flowControl},
		{"namespace-deletion", serving(namespaceKind), (*Server).namespaceDeletion},
		{"default-accounts", serving(namespaceKind, serviceAccountKind), (*Server).defaultAccounts},
		{"root-ca", func(s *Server) bool { return s.rootCA != nil && s.options.serve(namespaceKind, configMapKind) }, (*Server).publishRootCA},
		{"token-secrets", func(s *Server) bool { return s.tokens.Issues() && s.options.serve(serviceAccountKind, secretKind) }, (*Server).tokenSecrets},
		{"garbage-collection", func(*Server) bool { return true }, (*Server).garbageCollection},
		{"certificate-signer", func(s *Server) bool { return s.options.serve(signingKind) && s.options.Signing.signs() }, (*Server).certificateSigner},
		{"certificate-cleaner", serving(signingKind), (*Server).certificateCleaner},
		{"quota", serving(quotaKind, namespaceKind), (*Server).quota},
		{"storage-migration", serving(migrationKind), (*Server).storageMigration},
		{"policy-status", serving(policyKind), (*Server).policyStatus},
		{"expired-identities", serving(namespaceKind, leaseKind), (*Server).expiredIdentities},
		{"role-aggregation", serving(clusterRoleKind), (*Server).roleAggregation},
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

// led makes the controllers of one term, with informers of their own. Each is left out where what it needs is switched off.
func (s *Server) led(config *rest.Config) ([]leadership.Runner, error) {
	t, err := newTerm(config)
	if err != nil {
		return nil, err
	}
	runners := []leadership.Runner{leadership.Informers("informers", t.informers), leadership.Informers("apiservices", t.serviceInformers)}
	for _, next := range ledControllers() {
		if !next.on(s) || slices.Contains(s.options.WithoutControllers, next.name) {
			continue
		}
		run, err := next.new(s, t)
		if err != nil {
			return nil, fmt.Errorf("make the controller %s: %w", next.name, err)
		}
		runners = append(runners, leadership.Runner{Name: next.name, Run: run})
	}
	return runners, nil
}

func (s *Server) availability(t *term) (func(context.Context) error, error) {
	return availability.New(t.serviceInformers.Apiregistration().V1().APIServices(), t.services.ApiregistrationV1(),
		s.options.ServiceResolver, s.options.ProxyClientCertFile, s.options.ProxyClientKeyFile).Run, nil
}

func (s *Server) garbageCollection(t *term) (func(context.Context) error, error) {
	controller, err := garbagecollection.New(t.config)
	if err != nil {
		return nil, err
	}
	return controller.Run, nil
}

func (s *Server) flowControl(t *term) (func(context.Context) error, error) {
	return flowcontrol.New(t.client.FlowcontrolV1(), t.informers.Flowcontrol().V1()).Run, nil
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
