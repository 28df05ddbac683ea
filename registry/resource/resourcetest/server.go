// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcetest

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/rest"
	openapicommon "k8s.io/kube-openapi/pkg/common"

	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/storage"
)

// Options say what a test server serves.
type Options struct {
	Scheme      *runtime.Scheme
	Codecs      serializer.CodecFactory
	Definitions openapicommon.GetOpenAPIDefinitions
	// Version is stored and served.
	Version schema.GroupVersion
	Install func(group *resource.Group) error
	// Before are installed before that, such as what its gated fields depend on.
	Before []Group
	// Admission judges writes after the kind's own validation; optional.
	Admission admission.Interface
	// Authorizer defaults to allowing everything.
	Authorizer authorizer.Authorizer
	// Handler is put around the API, behind authorization; optional.
	Handler func(api http.Handler, config *genericapiserver.Config) http.Handler
	// Prefix is where keys begin in the package's etcd. Servers are kept apart by default; replicas name the same one.
	Prefix string
	// Etcd is used in place of the package's; optional.
	Etcd *clientv3.Client
	// Configure may change the server's configuration last; optional.
	Configure func(config *genericapiserver.Config)
	// Installed is called with the server once it has its kinds, and before it runs; optional.
	Installed func(server *genericapiserver.GenericAPIServer) error
}

// Group is a further group-version of a test server.
type Group struct {
	Version schema.GroupVersion
	Install func(group *resource.Group) error
}

// Server is a running test server.
type Server struct {
	// Config reaches the server as user "tester".
	Config *rest.Config
	// Etcd reaches the store below it, whose keys begin with Prefix.
	Etcd   *clientv3.Client
	Prefix string
}

// UserHeader names the user a test request comes from; the default is "tester".
const UserHeader = "X-Test-User"

// Start serves the group until the test ends.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	if options.Etcd == nil {
		options.Etcd = shared
	}
	if options.Etcd == nil {
		t.Fatal("the package has no etcd; call resourcetest.Main from its TestMain")
	}
	if options.Prefix == "" {
		options.Prefix = "/" + string(uuid.NewUUID())
	}
	config := genericapiserver.NewConfig(options.Codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.ExternalAddress = "127.0.0.1:443"
	config.LoopbackClientConfig = &rest.Config{}
	config.Authentication.Authenticator = authenticator.RequestFunc(testUser)
	config.Authorization.Authorizer = options.Authorizer
	if config.Authorization.Authorizer == nil {
		config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	}
	config.AdmissionControl = options.Admission
	config.RESTOptionsGetter = optionsGetter(options)
	if options.Handler != nil {
		config.BuildHandlerChainFunc = func(api http.Handler, config *genericapiserver.Config) http.Handler {
			return genericapiserver.DefaultBuildHandlerChain(options.Handler(api, config), config)
		}
	}
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(options.Definitions, openapi.NewDefinitionNamer(options.Scheme))
	if options.Configure != nil {
		options.Configure(config)
	}

	server, err := config.Complete(nil).New("resourcetest", genericapiserver.NewEmptyDelegate())
	if err != nil {
		t.Fatalf("building the test server: %v", err)
	}
	t.Cleanup(server.Destroy)
	var infos []*genericapiserver.APIGroupInfo
	var legacy *genericapiserver.APIGroupInfo
	for _, served := range append(slices.Clone(options.Before), Group{Version: options.Version, Install: options.Install}) {
		group := resource.NewGroup(options.Scheme, options.Codecs, config.RESTOptionsGetter, served.Version).Admit(options.Admission)
		t.Cleanup(group.Destroy)
		if err := served.Install(group); err != nil {
			t.Fatalf("installing kinds: %v", err)
		}
		if served.Version.Group == "" {
			legacy = group.APIGroupInfo()
			continue
		}
		infos = add(infos, group.APIGroupInfo())
	}
	if legacy != nil {
		if err := server.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, legacy); err != nil {
			t.Fatalf("installing the legacy group: %v", err)
		}
	}
	if err := server.InstallAPIGroups(infos...); err != nil {
		t.Fatalf("installing the groups: %v", err)
	}
	if options.Installed != nil {
		if err := options.Installed(server); err != nil {
			t.Fatalf("what follows the installation of the group: %v", err)
		}
	}
	server.PrepareRun()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	server.RunPostStartHooks(ctx)

	listener := httptest.NewServer(server.Handler)
	t.Cleanup(listener.Close)
	t.Cleanup(listener.CloseClientConnections)
	waitReady(t, listener.URL)
	return &Server{
		Config: &rest.Config{Host: listener.URL, QPS: -1, Timeout: 30 * time.Second},
		Etcd:   options.Etcd,
		Prefix: options.Prefix,
	}
}

// add adds a group, or to one of the same name, which can be served but once, its version.
func add(infos []*genericapiserver.APIGroupInfo, info *genericapiserver.APIGroupInfo) []*genericapiserver.APIGroupInfo {
	for _, before := range infos {
		if before.PrioritizedVersions[0].Group == info.PrioritizedVersions[0].Group {
			before.PrioritizedVersions = append(before.PrioritizedVersions, info.PrioritizedVersions...)
			maps.Copy(before.VersionedResourcesStorageMap, info.VersionedResourcesStorageMap)
			return infos
		}
	}
	return append(infos, info)
}

// waitReady waits until the watch caches are filled for the first time.
func waitReady(t testing.TB, url string) {
	t.Helper()
	client := &http.Client{Timeout: 30 * time.Second}
	deadline := time.Now().Add(30 * time.Second)
	for {
		response, err := client.Get(url + "/readyz")
		if err != nil {
			t.Fatalf("asking the test server whether it is ready: %v", err)
		}
		code := response.StatusCode
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		switch {
		case code == http.StatusOK:
			return
		case time.Now().After(deadline):
			t.Fatalf("the test server is not ready after 30 s: /readyz is %d", code)
		}
	}
}

func testUser(request *http.Request) (*authenticator.Response, bool, error) {
	name := request.Header.Get(UserHeader)
	if name == "" {
		name = "tester"
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}}, true, nil
}

func optionsGetter(options Options) generic.RESTOptionsGetter {
	stored, hubs := schema.GroupVersions{options.Version}, schema.GroupVersions{{Group: options.Version.Group, Version: runtime.APIVersionInternal}}
	for _, group := range options.Before {
		stored, hubs = append(stored, group.Version), append(hubs, schema.GroupVersion{Group: group.Version.Group, Version: runtime.APIVersionInternal})
	}
	codec := options.Codecs.CodecForVersions(protobufEncoder(options.Codecs), options.Codecs.UniversalDeserializer(), stored, hubs)
	return getter(func(resource schema.GroupResource) generic.RESTOptions {
		config := storagebackend.NewDefaultConfig(options.Prefix, codec)
		return generic.RESTOptions{
			StorageConfig:           config.ForResource(resource),
			Decorator:               storage.Decorator(guarded(options.Etcd), nil),
			EnableGarbageCollection: true,
			DeleteCollectionWorkers: 2,
			ResourcePrefix:          prefixOf(resource),
		}
	})
}

// prefixOf is where objects of a kind are, below the server's prefix.
func prefixOf(resource schema.GroupResource) string {
	if resource.Group == "" {
		return "core/" + resource.Resource
	}
	return resource.Group + "/" + resource.Resource
}

// guarded puts the guard above a client, as the server does.
func guarded(etcd *clientv3.Client) *kubernetes.Client {
	plain := kubernetes.Client{Client: etcd}
	return &kubernetes.Client{Client: etcd, Kubernetes: resource.GuardClient(plain, etcd.KV)}
}

func protobufEncoder(codecs serializer.CodecFactory) runtime.Serializer {
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return info.Serializer
}

type getter func(schema.GroupResource) generic.RESTOptions

func (g getter) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return g(resource), nil
}
