// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers/core"
	corev1informers "k8s.io/client-go/informers/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/internal/listbeforewatch"
)

// noNamespaces stands for the informers of a server that does not have the kind Namespace. Policies and webhooks for what is in no namespace
// work there, too.
type noNamespaces struct {
	core.Interface
	informer corev1informers.NamespaceIndexInformer
}

// newNoNamespaces returns an informer that has to run, and never knows anything.
func newNoNamespaces(others core.Interface) noNamespaces {
	informer := cache.NewSharedIndexInformer(listbeforewatch.ListWatch{ListWatch: &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.NamespaceList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}}, &corev1.Namespace{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return noNamespaces{Interface: others, informer: cache.NewTypedSharedIndexInformer[*corev1.Namespace](informer)}
}

// V1 implements core.Interface.
func (n noNamespaces) V1() corev1informers.Interface {
	return noNamespacesV1{Interface: n.Interface.V1(), informer: n.informer}
}

type noNamespacesV1 struct {
	corev1informers.Interface
	informer corev1informers.NamespaceIndexInformer
}

// Namespaces implements corev1informers.Interface.
func (n noNamespacesV1) Namespaces() corev1informers.TypedNamespaceInformer { return noNamespace(n) }

type noNamespace noNamespacesV1

// Informer implements corev1informers.TypedNamespaceInformer.
func (n noNamespace) Informer() cache.SharedIndexInformer { return n.informer }

// TypedInformer implements corev1informers.TypedNamespaceInformer.
func (n noNamespace) TypedInformer() corev1informers.NamespaceIndexInformer { return n.informer }

// Lister implements corev1informers.TypedNamespaceInformer.
func (n noNamespace) Lister() corev1listers.NamespaceLister {
	return corev1listers.NewNamespaceLister(n.informer.GetIndexer())
}
