// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"

	crdoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	basecompatibility "k8s.io/component-base/compatibility"

	"github.com/kube-annex/annex/registry/storage"
)

// Storage says how one server keeps its objects.
type Storage struct {
	// Prefix is where the server's keys begin.
	Prefix string
	Scheme *runtime.Scheme
	Codecs serializer.CodecFactory
	// EffectiveVersion decides which versions are written.
	EffectiveVersion basecompatibility.EffectiveVersion
	// JSON are the resources that are stored as JSON; all others are protobuf.
	JSON []schema.GroupResource
	// Resources tells which resources are on; nil means all.
	Resources *serverstorage.ResourceConfig
}

// ApplyTo gives a server its storage: protobuf under <prefix>/<group>/<resource>, encrypted if so configured, behind watch
// caches on the shared client, with health checks.
func (b *Backend) ApplyTo(config *genericapiserver.Config, s Storage) error {
	resources := s.Resources
	if resources == nil {
		resources = serverstorage.NewResourceConfig()
	}
	options := b.options(config, s.Prefix)
	factory := groupPrefixes{serverstorage.NewDefaultStorageFactory(options.StorageConfig, runtime.ContentTypeProtobuf, s.Codecs,
		serverstorage.NewDefaultResourceEncodingConfigForEffectiveVersion(s.Scheme, s.EffectiveVersion), resources, nil)}
	for _, resource := range s.JSON {
		factory.SetSerializer(resource, runtime.ContentTypeJSON, nil)
	}
	if err := b.encrypt(config); err != nil {
		return fmt.Errorf("set up encryption with --encryption-provider-config %s: %w", b.encryptionConfig, err)
	}
	if err := options.ApplyWithStorageFactoryTo(factory, config); err != nil {
		if b.encryptionConfig != "" {
			return fmt.Errorf("set up storage with --encryption-provider-config %s: %w", b.encryptionConfig, err)
		}
		return fmt.Errorf("set up storage: %w", err)
	}
	if reloading, ok := config.ResourceTransformers.(healthz.HealthChecker); ok {
		addKMSChecks(config, reloading)
	}
	config.RESTOptionsGetter = b.share(config.RESTOptionsGetter)
	config.AddHealthChecks(b.HealthCheck())
	config.AddHealthzChecks(b.SpaceCheck())
	return nil
}

// encrypt loads a configuration that is not reloaded. Upstream would do it, but drop the checks of key servers together with
// its etcd checks, which are not wanted.
func (b *Backend) encrypt(config *genericapiserver.Config) error {
	if b.encryptionConfig == "" || b.encryptionReload || config.ResourceTransformers != nil {
		return nil
	}
	// Key servers are asked until the last request is through; the store outlives its servers.
	ctx, cancel := context.WithCancel(context.Background())
	b.onStop(cancel)
	loaded, err := encryptionconfig.LoadEncryptionConfig(ctx, b.encryptionConfig, false, config.APIServerID)
	if err != nil {
		cancel()
		return err
	}
	config.ResourceTransformers = encryptionconfig.StaticTransformers(loaded.Transformers)
	addKMSChecks(config, loaded.HealthChecks...)
	return nil
}

// addKMSChecks leaves livez alone: a restart does not bring a key server back.
func addKMSChecks(config *genericapiserver.Config, checks ...healthz.HealthChecker) {
	config.AddHealthzChecks(checks...)
	config.AddReadyzChecks(checks...)
}

// CustomResourceRESTOptions returns the storage of custom resources: JSON, on the shared client. The server's storage must
// have been applied before, since both are encrypted by it.
func (b *Backend) CustomResourceRESTOptions(config *genericapiserver.Config, prefix string) (generic.RESTOptionsGetter, error) {
	return b.share(crdoptions.NewCRDRESTOptionsGetter(*b.options(config, prefix), config.ResourceTransformers, config.StorageObjectCountTracker)), nil
}

func (b *Backend) options(config *genericapiserver.Config, prefix string) *genericoptions.EtcdOptions {
	backend := storagebackend.NewDefaultConfig(prefix, nil)
	backend.Transport = b.Transport
	backend.StorageObjectCountTracker = config.StorageObjectCountTracker
	options := genericoptions.NewEtcdOptions(backend)
	// Upstream's checks dial clients of their own.
	options.SkipHealthEndpoints = true
	options.EncryptionProviderConfigFilepath = b.encryptionConfig
	options.EncryptionProviderConfigAutomaticReload = b.encryptionReload
	return options
}

func (b *Backend) share(getter generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return sharedGetter{RESTOptionsGetter: getter, decorator: storage.Decorator(b.Client, b.compactor)}
}

// sharedGetter builds every resource's storage on the shared client.
type sharedGetter struct {
	generic.RESTOptionsGetter
	decorator generic.StorageDecorator
}

func (g sharedGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	options.Decorator = g.decorator
	return options, err
}

// groupPrefixes stores each resource under its group, so that resources of the same name stay apart.
type groupPrefixes struct {
	*serverstorage.DefaultStorageFactory
}

func (groupPrefixes) ResourcePrefix(resource schema.GroupResource) string {
	if resource.Group == "" {
		return "core/" + resource.Resource
	}
	return resource.Group + "/" + resource.Resource
}
