// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kube-annex/annex/server/extension"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/internal/options"
)

const (
	// ManagedByLabel marks what belongs to a registration. An object without it is never changed or deleted.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of ManagedByLabel, and who owns the fields.
	ManagedBy = "annex-register"

	// DefaultServicePort is the port of the Service in a cluster.
	DefaultServicePort = 443

	nameLabel = "app.kubernetes.io/name"
	// portName is how the Service and the Deployment call the port.
	portName = "https"
)

// Object is anything that can be in a cluster.
type Object interface {
	metav1.Object
	runtime.Object
}

// Registration says how a cluster reaches the extension apiserver and who that is.
type Registration struct {
	// Service is what the APIServices refer to.
	Service options.Service
	// ServicePort is the port of the Service that serves HTTPS.
	ServicePort int32
	// ExternalName is a host outside the cluster on which the server listens at ServicePort. Empty means pods of the cluster.
	ExternalName string
	// User is who the server is in the cluster. Empty means the service account.
	User string
	// CABundle verifies the serving certificate, in PEM. Empty leaves it to the server, which makes its certificates by itself.
	CABundle []byte
}

// New returns the registration of a server in the cluster.
func New() Registration {
	return Registration{Service: options.NewService(), ServicePort: DefaultServicePort}
}

// Objects returns all that has to be in the cluster, in the order in which it is created.
func (r Registration) Objects() []Object {
	objects := []Object{r.namespace(r.Service.Namespace)}
	if r.Service.Namespace != gates.Namespace {
		objects = append(objects, r.namespace(gates.Namespace))
	}
	if r.User == "" {
		objects = append(objects, r.serviceAccount())
	}
	objects = append(objects, r.authoritySecret())
	objects = append(objects, r.serverRights()...)
	objects = append(objects, r.controllerRights()...)
	objects = append(objects, r.userRoles()...)
	objects = append(objects, r.flowSchemas()...)
	objects = append(objects, r.service())
	for _, service := range r.APIServices() {
		objects = append(objects, service)
	}
	return objects
}

// APIServices returns one for each group-version of the extension apiserver.
func (r Registration) APIServices() []*apiregistrationv1.APIService {
	services := make([]*apiregistrationv1.APIService, 0, len(extension.GroupVersions()))
	for _, version := range extension.GroupVersions() {
		group, inGroup := priorities(version)
		port := r.ServicePort
		services = append(services, &apiregistrationv1.APIService{
			TypeMeta:   typeMeta(apiregistrationv1.SchemeGroupVersion, "APIService"),
			ObjectMeta: r.metadata(extension.APIServiceName(version)),
			Spec: apiregistrationv1.APIServiceSpec{
				Group:                version.Group,
				Version:              version.Version,
				Service:              &apiregistrationv1.ServiceReference{Namespace: r.Service.Namespace, Name: r.Service.Name, Port: &port},
				CABundle:             r.CABundle,
				GroupPriorityMinimum: group,
				VersionPriority:      inGroup,
			},
		})
	}
	return services
}

// priorities order groups in discovery: the group's own, and the version's within it. node.k8s.io has to stay below the
// built-in v1, or RuntimeClass would lose its preferred version.
func priorities(version schema.GroupVersion) (group, inGroup int32) {
	if version.Group == "node.k8s.io" {
		return 16300, 1
	}
	return 900, 15
}

func (r Registration) namespace(name string) Object {
	return &corev1.Namespace{TypeMeta: typeMeta(corev1.SchemeGroupVersion, "Namespace"), ObjectMeta: r.metadata(name)}
}

func (r Registration) serviceAccount() Object {
	return &corev1.ServiceAccount{
		TypeMeta:   typeMeta(corev1.SchemeGroupVersion, "ServiceAccount"),
		ObjectMeta: r.namespaced(r.Service.Namespace, r.Service.Name),
	}
}

// authoritySecret is empty: the server fills it. That it is there spares the server the right to create Secrets, which
// cannot be restricted to a name.
func (r Registration) authoritySecret() Object {
	return &corev1.Secret{
		TypeMeta:   typeMeta(corev1.SchemeGroupVersion, "Secret"),
		ObjectMeta: r.namespaced(r.Service.Namespace, r.Service.AuthoritySecret()),
		Type:       corev1.SecretTypeOpaque,
	}
}

func (r Registration) service() Object {
	service := &corev1.Service{
		TypeMeta:   typeMeta(corev1.SchemeGroupVersion, "Service"),
		ObjectMeta: r.namespaced(r.Service.Namespace, r.Service.Name),
		Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Name: portName, Protocol: corev1.ProtocolTCP, Port: r.ServicePort, TargetPort: intstr.FromString(portName)}},
		},
	}
	if r.ExternalName != "" {
		service.Spec.Type = corev1.ServiceTypeExternalName
		service.Spec.ExternalName = r.ExternalName
		service.Spec.Ports[0].TargetPort = intstr.FromInt32(r.ServicePort)
	} else {
		service.Spec.Type = corev1.ServiceTypeClusterIP
		service.Spec.Selector = map[string]string{nameLabel: r.Service.Name}
	}
	return service
}

// subjects are who the server is.
func (r Registration) subjects() []rbacv1.Subject {
	if r.User != "" {
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: r.User}}
	}
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.Service.Namespace, Name: r.Service.Name}}
}

func (r Registration) metadata(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{ManagedByLabel: ManagedBy, nameLabel: r.Service.Name}}
}

func (r Registration) namespaced(namespace, name string) metav1.ObjectMeta {
	meta := r.metadata(name)
	meta.Namespace = namespace
	return meta
}

func (r Registration) labelled(name string, labels map[string]string) metav1.ObjectMeta {
	meta := r.metadata(name)
	maps.Copy(meta.Labels, labels)
	return meta
}

func typeMeta(version schema.GroupVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version.String(), Kind: kind}
}
