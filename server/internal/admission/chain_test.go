// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	kubeadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/webhook"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi/openapitest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/server/internal/admission"
	"github.com/kube-annex/annex/server/version"
)

// started is a chain on a fake cluster. It is ended with the test.
type started struct {
	t      *testing.T
	chain  *admission.Chain
	client *fake.Clientset
}

// start runs a chain. The server may be changed before.
func start(t *testing.T, o admission.Options, change func(*admission.Server), objects ...runtime.Object) *started {
	t.Helper()
	s := &started{t: t, client: fake.NewClientset(append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})...)}
	ctx, cancel := context.WithCancel(t.Context())
	server := admission.Server{
		ID: "test", Client: s.client, Dynamic: dynamicfake.NewSimpleDynamicClient(scheme.Scheme), Informers: informers.NewSharedInformerFactory(s.client, 0),
		Schemas: openapitest.NewFakeClient(), Services: webhook.NewDefaultServiceResolver(), Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(),
		Gates: utilfeature.DefaultFeatureGate, Version: version.NewEffective(), Drained: ctx.Done(),
	}
	if change != nil {
		change(&server)
	}
	var err error
	if s.chain, err = admission.New(o, server); err != nil {
		t.Fatal(err)
	}
	server.Informers.StartWithContext(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.chain.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		server.Informers.Shutdown()
	})
	return s
}

// create has a ConfigMap, or what else there is in the group, pass the chain.
func (s *started) create(ctx context.Context, resource schema.GroupVersionResource, kind string) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	attributes := kubeadmission.NewAttributesRecord(object, nil, resource.GroupVersion().WithKind(kind), "default", "x", resource, "", kubeadmission.Create, nil, false, &user.DefaultInfo{Name: "someone"})
	objects := kubeadmission.NewObjectInterfacesFromScheme(scheme.Scheme)
	if mutates, ok := s.chain.Handler().(kubeadmission.MutationInterface); ok && mutates.Handles(kubeadmission.Create) {
		if err := mutates.Admit(ctx, attributes, objects); err != nil {
			return err
		}
	}
	return s.chain.Handler().(kubeadmission.ValidationInterface).Validate(ctx, attributes, objects)
}

func (s *started) configMap() error {
	return s.create(s.t.Context(), corev1.SchemeGroupVersion.WithResource("configmaps"), "ConfigMap")
}

// refuses is a policy and its binding.
func refuses(group string) []runtime.Object {
	meta, constraints := metav1.ObjectMeta{Name: "refuses"}, admissiontest.Constraints(group, "*", "*", "")
	constraints.NamespaceSelector, constraints.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{} // a server fills these in
	return []runtime.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: constraints, Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "refused"}},
		}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "refuses", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}},
	}
}

func all() sets.Set[string] {
	kinds := sets.New[string]()
	for _, kind := range admission.ConfigurationKinds() {
		kinds.Insert(kind.Resource)
	}
	return kinds
}

// host is one whose kinds come and go.
type host struct {
	kinds atomic.Pointer[sets.Set[string]]
}

func (h *host) serve(kinds sets.Set[string]) { h.kinds.Store(&kinds) }

func (h *host) on(server *admission.Server) {
	server.Kinds = func(context.Context) (sets.Set[string], error) {
		if kinds := h.kinds.Load(); kinds != nil {
			return *kinds, nil
		}
		return nil, errors.New("the host is away")
	}
}

func TestAPolicyIsEnforcedFromTheFirstRequestOn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*admission.Server)
		group  string
		want   bool
	}{
		"of the server itself":          {nil, "", true},
		"about a group of the server":   {func(s *admission.Server) { s.Groups = []string{"features.k8s.io", ""} }, "", true},
		"about everything":              {func(s *admission.Server) { s.Groups = []string{"features.k8s.io", ""} }, "*", true},
		"about other groups than it is": {func(s *admission.Server) { s.Groups = []string{"features.k8s.io"} }, "apps", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := start(t, admission.Options{}, tc.change, refuses(tc.group)...)
				if err := s.configMap(); (err != nil) != tc.want || err != nil && !strings.Contains(err.Error(), "refused") {
					t.Errorf("got %v, want it refused: %t", err, tc.want)
				}
				if err := s.chain.Check(nil); err != nil {
					t.Errorf("readiness: %v", err)
				}
			})
		})
	}
}

func TestAHostThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		s := start(t, admission.Options{}, h.on, refuses("")...)
		began := time.Now()
		if err := s.configMap(); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "not yet ready") || !strings.Contains(err.Error(), "the host is away") {
			t.Errorf("got %v, want 503", err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 10*time.Second+200*time.Millisecond {
			t.Errorf("the request was held for %s, want 10s as in a kube-apiserver", took)
		}
		if err := s.chain.Check(nil); err == nil {
			t.Error("the server is ready")
		}
		for kind, resource := range map[string]schema.GroupVersionResource{
			"ValidatingAdmissionPolicy": admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"),
			"SubjectAccessReview":       {Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"},
		} {
			if err := s.create(t.Context(), resource, kind); err != nil {
				t.Errorf("%s, which is never judged: %v", kind, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := s.create(ctx, corev1.SchemeGroupVersion.WithResource("configmaps"), "ConfigMap"); err == nil || time.Since(began) != time.Second {
			t.Errorf("a client that has gone was waited for: %s (%v)", time.Since(began), err)
		}
		// Those who wait are let go on when the host is back.
		go h.serve(all())
		began = time.Now()
		if err := s.configMap(); err == nil || !strings.Contains(err.Error(), "refused") || time.Since(began) > 3*time.Second {
			t.Errorf("got %v after %s, want it refused by the policy", err, time.Since(began))
		}
	})
}

func TestKindsComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		h.serve(all().Delete("validatingadmissionpolicies"))
		s := start(t, admission.Options{}, h.on, refuses("")...)
		for _, next := range []struct {
			kinds sets.Set[string]
			want  bool
		}{
			{all().Delete("validatingadmissionpolicies"), false},
			{all(), true},
			{all().Delete("mutatingwebhookconfigurations"), true},
			{sets.New[string](), false},
			{all(), true},
			{nil, true}, // it is away, and what was known holds
		} {
			if next.kinds == nil {
				h.kinds.Store(nil)
			} else {
				h.serve(next.kinds)
			}
			time.Sleep(2 * time.Minute) //nolint:forbidigo // in a bubble, it takes no time
			if err := s.configMap(); (err != nil) != next.want {
				t.Errorf("with %v: got %v, want it refused: %t", sets.List(next.kinds), err, next.want)
			}
			if err := s.chain.Check(nil); err != nil {
				t.Errorf("with %v: readiness: %v", sets.List(next.kinds), err)
			}
		}
	})
}

func TestAPolicyTakesEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, admission.Options{}, nil)
		if err := s.configMap(); err != nil {
			t.Fatal(err)
		}
		for _, object := range refuses("") {
			if err := s.client.Tracker().Add(object); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(1500 * time.Millisecond) //nolint:forbidigo // in a bubble, it takes no time
		if err := s.configMap(); err == nil {
			t.Error("it has no effect after 1.5s")
		}
	})
}

// TestNoNamespaces is a server without the kind, in which policies work nevertheless.
func TestNoNamespaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, admission.Options{}, func(s *admission.Server) {
			s.Serves = func(kind schema.GroupResource) bool { return kind.Resource != "namespaces" }
		}, refuses("")...)
		resource := corev1.SchemeGroupVersion.WithResource("things")
		attributes := kubeadmission.NewAttributesRecord(&corev1.ConfigMap{}, nil, corev1.SchemeGroupVersion.WithKind("ConfigMap"), "", "x", resource, "", kubeadmission.Create, nil, false, &user.DefaultInfo{})
		err := s.chain.Handler().(kubeadmission.ValidationInterface).Validate(t.Context(), attributes, kubeadmission.NewObjectInterfacesFromScheme(scheme.Scheme))
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("got %v, want it refused", err)
		}
	})
}

// recorder is a plugin that notes that it was asked.
type recorder struct {
	*kubeadmission.Handler
	name  string
	asked *[]string
}

func (r recorder) Validate(context.Context, kubeadmission.Attributes, kubeadmission.ObjectInterfaces) error {
	*r.asked = append(*r.asked, r.name)
	return nil
}

func TestPlugins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		plugin := func(name string, last bool) admission.Plugin {
			return admission.Plugin{Name: name, Last: last, New: func(io.Reader) (kubeadmission.Interface, error) {
				return recorder{kubeadmission.NewHandler(kubeadmission.Create), name, &asked}, nil
			}}
		}
		o := admission.Options{
			Plugins:         []admission.Plugin{plugin("Last", true), plugin("First", false), plugin("Unwanted", false)},
			DisabledPlugins: []string{"Unwanted", admission.ValidatingAdmissionPolicy, admission.NamespaceLifecycle},
		}
		if errs := o.Validate(); len(errs) > 0 {
			t.Fatal(errs)
		}
		s := start(t, o, nil, refuses("")...)
		if err := s.configMap(); err != nil {
			t.Errorf("without the plugin, policies are enforced: %v", err)
		}
		if want := []string{"First", "Last"}; !slices.Equal(asked, want) {
			t.Errorf("%v were asked, want %v", asked, want)
		}
	})
}

// TestConfigurationsThatCannotBeRead are refused by the host, or cannot be decoded by it. Not in a bubble: how the library limits what it logs
// of failures is shared by all, and does not stand a time of its own.
func TestConfigurationsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var readable atomic.Bool
	h := &host{}
	s := start(t, admission.Options{}, func(server *admission.Server) {
		h.on(server)
		server.Client.(*fake.Clientset).PrependReactor("list", "validatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !readable.Load(), nil, errors.New("they are none of your business")
		})
	})
	h.serve(all())
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	if err := s.create(soon, configMaps, "ConfigMap"); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "[validatingwebhookconfigurations] have not been read yet: ") || !strings.Contains(err.Error(), "none of your business") {
		t.Errorf("got %v, want 503", err)
	}
	if err := s.chain.Check(nil); err == nil || !strings.Contains(err.Error(), "none of your business") {
		t.Errorf("readiness: got %v", err)
	}
	if err := s.create(t.Context(), admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"), "ValidatingWebhookConfiguration"); err != nil {
		t.Errorf("putting webhooks right: %v", err)
	}
	readable.Store(true)
	if err := s.create(t.Context(), configMaps, "ConfigMap"); err != nil { // it waits for the next try
		t.Errorf("with webhooks that can be read again: %v", err)
	}
}
