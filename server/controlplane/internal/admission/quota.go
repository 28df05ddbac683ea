// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	resourcequotaapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	quotacontroller "github.com/kube-annex/annex/server/controlplane/internal/controllers/resourcequota"
	serveradmission "github.com/kube-annex/annex/server/internal/admission"
)

// ResourceQuotaName is the plugin's name.
const ResourceQuotaName = resourcequota.PluginName

// Quota is the plugin that refuses objects beyond what the ResourceQuotas of their namespace allow. It runs after all others, since it
// charges what it lets pass.
//
// What a request uses, and whether that is allowed, is judged by the library. How quotas are charged is our own: the library's plugin answers
// clients with a conflict where other replicas or the controller write into a quota again and again. And after a charge that failed it judges
// all requests again by part of the quotas, whereby those pass that another quota has refused.
func Quota() serveradmission.Plugin {
	return serveradmission.Plugin{Name: ResourceQuotaName, New: newQuotas, Last: true}
}

type quotas struct {
	*admission.Handler
	limited []resourcequotaapi.LimitedResource
	access  *quotaAccess
	batches *quotaBatches
}

func newQuotas(configuration io.Reader) (admission.Interface, error) {
	limits, err := resourcequota.LoadConfiguration(configuration)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", ResourceQuotaName, err)
	}
	if errs := validation.ValidateConfiguration(limits); len(errs) > 0 {
		return nil, fmt.Errorf("the configuration of %s: %w", ResourceQuotaName, errs.ToAggregate())
	}
	access := newQuotaAccess()
	return &quotas{
		Handler: admission.NewHandler(admission.Create), limited: limits.LimitedResources,
		access: access, batches: newQuotaBatches(quotaJudge{access, limits.LimitedResources}.judge),
	}, nil
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (q *quotas) SetExternalKubeClientSet(client kubernetes.Interface) {
	q.access.client = client.CoreV1()
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (q *quotas) SetExternalKubeInformerFactory(factory informers.SharedInformerFactory) {
	all := factory.Core().V1().ResourceQuotas()
	q.access.lister, q.access.synced = all.Lister(), all.Informer().HasSynced
}

// ValidateInitialization implements admission.InitializationValidator.
func (q *quotas) ValidateInitialization() error {
	if q.access.client == nil || q.access.lister == nil {
		return fmt.Errorf("the admission plugin %s got no client or no informers", ResourceQuotaName)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (q *quotas) Validate(ctx context.Context, request admission.Attributes, _ admission.ObjectInterfaces) error {
	namespace, kind := request.GetNamespace(), request.GetResource().GroupResource()
	if _, ignored := quotacontroller.Ignored()[kind]; ignored || namespace == "" || request.GetSubresource() != "" || kind == corev1.Resource("namespaces") {
		return nil
	}
	if len(q.limited) == 0 {
		if all, err := q.access.known(ctx, namespace); err == nil && len(all) == 0 {
			return nil
		}
	}
	return q.batches.add(ctx, namespace, request)
}
