// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	kubeadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	featuresinstall "github.com/kube-annex/annex/apis/features/install"
	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	multiclusterinstall "github.com/kube-annex/annex/apis/multicluster/install"
	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	featuresapply "github.com/kube-annex/annex/generated/applyconfiguration/features/v1alpha1"
	multiclusterapply "github.com/kube-annex/annex/generated/applyconfiguration/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/generated/openapi"
	"github.com/kube-annex/annex/registry/features"
	"github.com/kube-annex/annex/registry/multicluster"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/server/extension/admission"
)

func TestMain(m *testing.M) { resourcetest.Main(m) }

// onlyCurator lets everyone do everything but reserve, which only the curator may.
type onlyCurator struct{ authorizer.Authorizer }

func (onlyCurator) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == "reserve" && a.GetUser().GetName() != "curator" {
		return authorizer.DecisionDeny, "", nil
	}
	return authorizer.DecisionAllow, "", nil
}

func start(t *testing.T, version schema.GroupVersion, installScheme func(*runtime.Scheme), install func(*resource.Group) error, plugin kubeadmission.Interface) *resourcetest.Server {
	t.Helper()
	scheme := resource.NewScheme(installScheme)
	return resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme), Definitions: openapi.GetOpenAPIDefinitions,
		Version: version, Install: install, Admission: plugin,
	})
}

// as returns a client that acts as a user.
func as(t *testing.T, server *resourcetest.Server, user string) *versioned.Clientset {
	t.Helper()
	config := rest.CopyConfig(server.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return actAs{next, user} })
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type actAs struct {
	next http.RoundTripper
	user string
}

func (a actAs) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set(resourcetest.UserHeader, a.user)
	return a.next.RoundTrip(request)
}

func claim(name string) *multiclusterv1alpha1.ClusterClaim {
	return &multiclusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: multiclusterv1alpha1.ClusterClaimSpec{Value: "one"}}
}

func TestReservedClaimNames(t *testing.T) {
	t.Parallel()
	plugin := admission.NewReservedClaimNames()
	plugin.SetAuthorizer(onlyCurator{})
	server := start(t, multiclusterv1alpha1.SchemeGroupVersion, multiclusterinstall.Install, multicluster.Install, plugin)
	alice := as(t, server, "alice").MulticlusterV1alpha1().ClusterClaims()
	curator := as(t, server, "curator").MulticlusterV1alpha1().ClusterClaims()

	for name, reserved := range map[string]bool{
		"x.k8s.io": true, "a.b.k8s.io": true, "x.kubernetes.io": true, "sigs.k8s.io": true, "x.sigs.k8s.io": true,
		"k8s.io": false, "kubernetes.io": false, "xk8s.io": false, "x.k8s.io.example.com": false, "id.k8s.io": false,
	} {
		_, err := alice.Create(t.Context(), claim(name), metav1.CreateOptions{})
		if !reserved {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		wantForbidden(t, "create "+name, err, "reserve")
		if _, err := curator.Create(t.Context(), claim(name), metav1.CreateOptions{}); err != nil {
			t.Errorf("the holder of reserve creating %s: %v", name, err)
		}
	}

	const name = "x.k8s.io"
	current, err := curator.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	current.Spec.Value = "two"
	attempts := map[string]func() error{
		"update": func() error { _, err := alice.Update(t.Context(), current, metav1.UpdateOptions{}); return err },
		"patch": func() error {
			_, err := alice.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"value":"two"}}`), metav1.PatchOptions{})
			return err
		},
		"apply": func() error {
			_, err := alice.Apply(t.Context(), multiclusterapply.ClusterClaim(name).WithSpec(multiclusterapply.ClusterClaimSpec().WithValue("two")), metav1.ApplyOptions{FieldManager: "alice", Force: true})
			return err
		},
		"apply that creates": func() error {
			_, err := alice.Apply(t.Context(), multiclusterapply.ClusterClaim("new.k8s.io").WithSpec(multiclusterapply.ClusterClaimSpec().WithValue("two")), metav1.ApplyOptions{FieldManager: "alice", Force: true})
			return err
		},
		"delete": func() error { return alice.Delete(t.Context(), name, metav1.DeleteOptions{}) },
		"deletecollection": func() error {
			return alice.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		},
		"dry-run delete": func() error {
			return alice.Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		},
	}
	for verb, attempt := range attempts {
		wantForbidden(t, verb, attempt(), "reserve")
	}
	if got, err := curator.Get(t.Context(), name, metav1.GetOptions{}); err != nil || got.Spec.Value != "one" {
		t.Errorf("after all attempts: %v, %v", got, err)
	}
	if err := curator.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("the holder of reserve deleting: %v", err)
	}
}

func TestReservationOwner(t *testing.T) {
	t.Parallel()
	plugin := admission.NewReservationOwner()
	plugin.SetAuthorizer(onlyCurator{})
	server := start(t, multiclusterv1alpha1.SchemeGroupVersion, multiclusterinstall.Install, multicluster.Install, plugin)
	reserve := func(id string) string {
		name := multiclusterv1alpha1.ReservationName("fleet", id)
		_, err := as(t, server, "alice").MulticlusterV1alpha1().ClusterIDReservations().Create(t.Context(), &multiclusterv1alpha1.ClusterIDReservation{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       multiclusterv1alpha1.ClusterIDReservationSpec{ClusterSet: "fleet", ClusterID: id, ClusterUID: "u", ClaimUID: "c"},
			Status:     multiclusterv1alpha1.ClusterIDReservationStatus{Owner: "mallory"},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	deleteAs := func(user, name string) error {
		return as(t, server, user).MulticlusterV1alpha1().ClusterIDReservations().Delete(t.Context(), name, metav1.DeleteOptions{})
	}
	one, two := reserve("one"), reserve("two")
	wantForbidden(t, "another user", deleteAs("mallory", one), `"alice"`)
	err := as(t, server, "mallory").MulticlusterV1alpha1().ClusterIDReservations().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	wantForbidden(t, "another user's deletecollection", err, `"alice"`)
	if err := deleteAs("alice", one); err != nil {
		t.Errorf("the owner: %v", err)
	}
	if err := deleteAs("curator", two); err != nil {
		t.Errorf("the holder of reserve: %v", err)
	}
}

func TestDynamicFeatures(t *testing.T) {
	t.Parallel()
	server := start(t, featuresv1alpha1.SchemeGroupVersion, featuresinstall.Install, features.Install, admission.NewDynamicFeatures())
	client := as(t, server, "alice").FeaturesV1alpha1().Features("kube-system")
	wish := func(value featuresv1alpha1.Value) error {
		_, err := client.Patch(t.Context(), "NodeSwap", types.MergePatchType, []byte(`{"spec":{"desired":"`+string(value)+`"}}`), metav1.PatchOptions{})
		return err
	}
	setDynamic := func(dynamic bool) {
		t.Helper()
		current, err := client.Get(t.Context(), "NodeSwap", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		current.Status.Dynamic = dynamic
		if _, err := client.UpdateStatus(t.Context(), current, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const flag = "--dynamic-features=kube-system/NodeSwap"

	withWish := &featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "NodeSwap"}, Spec: featuresv1alpha1.FeatureSpec{Desired: featuresv1alpha1.ValueEnabled}, Status: featuresv1alpha1.FeatureStatus{Dynamic: true}}
	_, err := client.Create(t.Context(), withWish, metav1.CreateOptions{})
	wantForbidden(t, "create with a wish", err, flag)
	_, err = client.Apply(t.Context(), featuresapply.Feature("NodeSwap", "kube-system").WithSpec(featuresapply.FeatureSpec().WithDesired(featuresv1alpha1.ValueEnabled)), metav1.ApplyOptions{FieldManager: "a", Force: true})
	wantForbidden(t, "apply that creates with a wish", err, flag)

	if _, err := client.Create(t.Context(), &featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "NodeSwap"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantForbidden(t, "a wish for what is not dynamic", wish(featuresv1alpha1.ValueEnabled), flag)
	setDynamic(true)
	if err := wish(featuresv1alpha1.ValueEnabled); err != nil {
		t.Errorf("a wish for a dynamic feature: %v", err)
	}
	setDynamic(false)
	wantForbidden(t, "changing a wish that is ignored", wish(featuresv1alpha1.ValueDisabled), flag)
	if err := wish(featuresv1alpha1.ValueEnabled); err != nil {
		t.Errorf("repeating a stored wish: %v", err)
	}
	if _, err := client.Patch(t.Context(), "NodeSwap", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("labelling a feature with a stored wish: %v", err)
	}
	if err := wish(""); err != nil {
		t.Errorf("clearing a wish: %v", err)
	}
}

// TestWishesThatCannotBeGranted has Features for which no --dynamic-features would help.
func TestWishesThatCannotBeGranted(t *testing.T) {
	t.Parallel()
	server := start(t, featuresv1alpha1.SchemeGroupVersion, featuresinstall.Install, features.Install, admission.NewDynamicFeatures())
	client := as(t, server, "alice").FeaturesV1alpha1().Features("kube-system")
	for name, tc := range map[string]struct {
		status featuresv1alpha1.FeatureStatus
		want   string
	}{
		"Locked":        {featuresv1alpha1.FeatureStatus{Locked: true, Default: "Enabled", Stability: "GA"}, "locked to its default, which is Enabled"},
		"LockedAlpha":   {featuresv1alpha1.FeatureStatus{Locked: true, Default: "Disabled", Stability: "Alpha"}, "locked to its default, which is Disabled"},
		"LockedDynamic": {featuresv1alpha1.FeatureStatus{Locked: true, Dynamic: true}, "locked to its default, which is unknown"},
		"GA":            {featuresv1alpha1.FeatureStatus{Stability: "GA"}, "is GA"},
		"DynamicGA":     {featuresv1alpha1.FeatureStatus{Stability: "GA", Dynamic: true}, "is GA"},
		"Observed":      {featuresv1alpha1.FeatureStatus{Stability: "Beta", Source: "Observed", State: "On"}, "--feature-gates=Observed=true or false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			created, err := client.Create(t.Context(), &featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			created.Status = tc.status
			stored, err := client.UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stored.Spec.Desired = featuresv1alpha1.ValueDisabled
			_, updating := client.Update(t.Context(), stored, metav1.UpdateOptions{})
			_, patching := client.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"desired":"Enabled"}}`), metav1.PatchOptions{})
			_, applying := client.Apply(t.Context(), featuresapply.Feature(name, "kube-system").WithSpec(featuresapply.FeatureSpec().WithDesired(featuresv1alpha1.ValueEnabled)),
				metav1.ApplyOptions{FieldManager: "a", Force: true})
			for verb, err := range map[string]error{"update": updating, "patch": patching, "apply": applying} {
				wantForbidden(t, verb, err, tc.want)
				if err != nil && strings.Contains(err.Error(), "--dynamic-features") {
					t.Errorf("%s: the advice does not help: %v", verb, err)
				}
			}
		})
	}
}

func wantForbidden(t *testing.T, what string, err error, message string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), message) {
		t.Errorf("%s: got %v, want 403 with %q", what, err, message)
	}
}
