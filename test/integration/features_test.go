// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	basegate "k8s.io/component-base/featuregate"

	features "github.com/kube-annex/annex/apis/features/v1alpha1"
	node "github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	reclaimPolicy = "NodeBalloonReclaimPolicy"
	canaryGate    = "FeatureCanary"
)

// quickly has features move as fast as they can: a replica does not have to wait for others, since there are none.
func quickly(o *standalone.Options) {
	o.Extension.Lifecycle.AnswerWindow = time.Second
	o.Extension.Lifecycle.Timings.RenewInterval = time.Second
}

// eventually waits until wrong finds nothing wrong with the Feature, and returns it.
func eventually(t *testing.T, server *framework.Server, namespace, feature string, wrong func(*features.Feature) string) (current *features.Feature) {
	t.Helper()
	poll.Eventually(t, time.Minute, namespace+"/"+feature+" is as expected", func(ctx context.Context) (err error) {
		if current, err = server.Annex.FeaturesV1alpha1().Features(namespace).Get(ctx, feature, metav1.GetOptions{}); err != nil {
			return err
		}
		problem := wrong(current)
		return poll.Want(problem == "", fmt.Sprintf("%s; its status: %+v", problem, current.Status))
	})
	return current
}

// is wants the state, the source, and that someone of the component sees the feature with the value that belongs to the state.
func is(state features.State, source features.Source) func(*features.Feature) string {
	return func(f *features.Feature) string {
		if f.Status.State != state || f.Status.Source != source {
			return fmt.Sprintf("it is %s by %s, want %s by %s", f.Status.State, f.Status.Source, state, source)
		}
		want := map[features.State]features.Value{features.StateOn: features.ValueEnabled, features.StateOff: features.ValueDisabled}[state]
		for _, use := range f.Status.Uses {
			if use.Component == "annex" && use.Value == want && use.Version == "v0.1.0" {
				return ""
			}
		}
		return fmt.Sprintf("the uses are %+v, want annex to see it %s", f.Status.Uses, want)
	}
}

func desire(t *testing.T, server *framework.Server, namespace, feature string, value features.Value) error {
	t.Helper()
	_, err := server.Annex.FeaturesV1alpha1().Features(namespace).Patch(t.Context(), feature, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"desired":%q}}`, value), metav1.PatchOptions{})
	return err
}

// createBalloon creates one with the gated field. On a machine with too much to do the host may not know for a moment that the server is
// there.
func createBalloon(t *testing.T, client versioned.Interface, name string) *node.NodeBalloon {
	t.Helper()
	hold := node.ReclaimHold
	balloon := &node.NodeBalloon{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       node.NodeBalloonSpec{NodeSize: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1")}, ReclaimPolicy: &hold},
	}
	var out *node.NodeBalloon
	poll.Eventually(t, time.Minute, "a NodeBalloon is created", func(ctx context.Context) (err error) {
		out, err = client.NodeV1alpha1().NodeBalloons().Create(ctx, balloon, metav1.CreateOptions{})
		if err != nil && !apierrors.IsServiceUnavailable(err) {
			return poll.Permanent(err)
		}
		return err
	})
	return out
}

// lifecycleLeases returns the uids of what the extension apiserver says of itself to others.
func lifecycleLeases(t *testing.T, server *framework.Server) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, label := range []string{"features.k8s.io/announcer=annex-apiserver", "features.k8s.io/component=annex"} {
		list, err := server.Kubernetes.CoordinationV1().Leases("annex-system").List(t.Context(), metav1.ListOptions{LabelSelector: label})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			out[list.Items[i].Name] = list.Items[i].UID
		}
	}
	return out
}

// TestOwnFeaturesFollowTheFlags takes a gate of Annex through restarts with other flags, and with another default.
func TestOwnFeaturesFollowTheFlags(t *testing.T) {
	t.Parallel()
	var options *standalone.Options
	server := framework.Start(t, quickly, func(o *standalone.Options) {
		options = o
		if err := o.Gates.Set(reclaimPolicy + "=true"); err != nil {
			t.Fatal(err)
		}
	})
	restart := func(change func(basegate.MutableVersionedFeatureGate) error) {
		t.Helper()
		options.Gates = gates.New()
		if err := change(options.Gates); err != nil {
			t.Fatal(err)
		}
		server.Restart(t)
	}
	set := func(value string) func(basegate.MutableVersionedFeatureGate) error {
		return func(gates basegate.MutableVersionedFeatureGate) error { return gates.Set(reclaimPolicy + "=" + value) }
	}
	unset := func(basegate.MutableVersionedFeatureGate) error { return nil }
	store := func(name string) {
		t.Helper()
		config := rest.CopyConfig(server.Config)
		config.WarningHandler = rest.NoWarnings{}
		client, err := versioned.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if out := createBalloon(t, client, name); out.Spec.ReclaimPolicy == nil {
			t.Fatalf("the feature is On, and the field was dropped: %+v", out)
		}
	}
	wantStored := func(when string, want int) {
		t.Helper()
		list, err := server.Annex.NodeV1alpha1().NodeBalloons().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i := range list.Items {
			if list.Items[i].Spec.ReclaimPolicy != nil {
				found++
			}
		}
		if found != want {
			t.Errorf("%s, %d of %d objects have the field, want %d", when, found, len(list.Items), want)
		}
	}
	none := func(f *features.Feature) {
		t.Helper()
		if left := f.Status.DanglingReferences; left == nil || left.Count != 0 {
			t.Errorf("dangling references are %+v, want a count of 0", left)
		}
	}

	// Whoever starts the server with the gate has it, before and after the Feature is announced.
	store("one")
	eventually(t, server, "annex-system", reclaimPolicy, is(features.StateOn, features.SourceCommandLine))
	store("two")

	before := lifecycleLeases(t, server)
	restart(set("false"))
	eventually(t, server, "annex-system", reclaimPolicy, is(features.StateOff, features.SourceCommandLine))
	after := lifecycleLeases(t, server)
	if len(before) != 2 || len(after) != 2 {
		t.Errorf("the Leases are %v, and %v after a restart; want that of the replica and that of its reporter", before, after)
	}
	for name, uid := range before {
		if now, ok := after[name]; !ok || now == uid {
			t.Errorf("the Lease %s was not deleted when the server stopped, or the next has another name: %v", name, after)
		}
	}
	none(eventually(t, server, "annex-system", reclaimPolicy, is(features.StateOff, features.SourceCommandLine)))
	wantStored("after a restart with the gate off", 0)

	// A version in which the default is another is on by default. That nobody gives the flag any more is somebody's act as well, so that
	// nothing waits to be confirmed.
	restart(func(gates basegate.MutableVersionedFeatureGate) error {
		return gates.OverrideDefault(reclaimPolicy, true)
	})
	eventually(t, server, "annex-system", reclaimPolicy, is(features.StateOn, features.SourceDefault))
	store("three")
	// To go back to this version is nobody's wish to throw away what users have stored.
	restart(unset)
	waiting := eventually(t, server, "annex-system", reclaimPolicy, func(f *features.Feature) string {
		if len(f.Status.Tasks) == 0 || f.Status.Tasks[0].State != features.TaskAwaitingConfirmation {
			return fmt.Sprintf("the tasks are %+v, want the first to await confirmation", f.Status.Tasks)
		}
		return ""
	})
	if waiting.Status.State != features.StateTurningOff || waiting.Status.Tasks[0].Name != "ClearField" {
		t.Errorf("it is %s and awaits confirmation of %s, want TurningOff and ClearField", waiting.Status.State, waiting.Status.Tasks[0].Name)
	}
	wantStored("while nobody has confirmed", 1)
	restart(set("false"))
	none(eventually(t, server, "annex-system", reclaimPolicy, is(features.StateOff, features.SourceCommandLine)))
	wantStored("after the flag has confirmed", 0)
}

// TestFeaturesFollowTheAPI turns features on and off while the server runs.
func TestFeaturesFollowTheAPI(t *testing.T) {
	t.Parallel()
	server := framework.Start(t, quickly, func(o *standalone.Options) {
		o.Extension.Lifecycle.Dynamic = []string{"annex-system/" + canaryGate, "frob-system/Bar"}
		o.Extension.Lifecycle.Features = []string{"frob-system/Foo=true", "frob-system/Bar=false"}
	})
	kubectl := framework.NewKubectl(t, root, server.Kubeconfig)
	client := server.Annex.FeaturesV1alpha1()

	t.Run("they are announced", func(t *testing.T) {
		for name, state := range map[string]features.State{
			canaryGate: features.StateOff, "GracefulLeaderTransition": features.StateOn, reclaimPolicy: features.StateOff,
		} {
			f := eventually(t, server, "annex-system", name, is(state, features.SourceDefault))
			if want := name == canaryGate; f.Status.Dynamic != want || f.Status.Version != "v0.1.0" || f.Status.Locked {
				t.Errorf("%s has the status %+v, want dynamic %t, version v0.1.0, and not locked", name, f.Status, want)
			}
		}
		kubectl.Want(t, `^NAME +STATE +STABILITY +DEFAULT +SOURCE +USES +TASK +AGE$`, "get", "features", "-n", "annex-system")
		kubectl.Want(t, `^FeatureCanary +Off +Alpha +Disabled +Default +1 off `, "get", "features", "-n", "annex-system")
		kubectl.Want(t, `^GracefulLeaderTransition +On +Beta +Enabled +Default +1 on `, "get", "features", "-n", "annex-system")
		kubectl.Want(t, `^NodeBalloonReclaimPolicy +Off +Alpha +Disabled +Default +1 off .* v0\.1\.0 `, "get", "features", "-n", "annex-system", "-o", "wide")
	})

	t.Run("only what is dynamic may be set", func(t *testing.T) {
		err := desire(t, server, "annex-system", reclaimPolicy, features.ValueEnabled)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "--dynamic-features=annex-system/"+reclaimPolicy) {
			t.Errorf("got %v, want 403 that names the flag", err)
		}
	})

	t.Run("a canary needs its own feature", func(t *testing.T) {
		name := "WithCanary"
		withCanary := &features.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: features.FeatureSpec{Canary: &features.Canary{Percent: 5}}}
		_, err := client.Features("default").Create(t.Context(), withCanary, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.canary") || !strings.Contains(err.Error(), "annex-system/"+canaryGate) {
			t.Errorf("while FeatureCanary is off: got %v, want 422", err)
		}
		if err = desire(t, server, "annex-system", canaryGate, features.ValueEnabled); err != nil {
			t.Fatal(err)
		}
		eventually(t, server, "annex-system", canaryGate, is(features.StateOn, features.SourceDynamic))
		if _, err = client.Features("default").Create(t.Context(), withCanary, metav1.CreateOptions{}); err != nil {
			t.Fatalf("while FeatureCanary is on: %v", err)
		}
		// Turning it off removes no canary, since that would turn its feature on for all.
		if err = desire(t, server, "annex-system", canaryGate, features.ValueDisabled); err != nil {
			t.Fatal(err)
		}
		waiting := eventually(t, server, "annex-system", canaryGate, func(f *features.Feature) string {
			if len(f.Status.Tasks) == 0 || f.Status.Tasks[0].Name != "WaitForRemoval" || f.Status.Tasks[0].Message == "" {
				return fmt.Sprintf("the tasks are %+v, want WaitForRemoval to say what it waits for", f.Status.Tasks)
			}
			return ""
		})
		if task := waiting.Status.Tasks[0]; !strings.Contains(task.Message, "features default/"+name) || waiting.Status.DanglingReferences.Count != 1 {
			t.Errorf("the task says %q, and dangling references are %+v", task.Message, waiting.Status.DanglingReferences)
		}
		if err = client.Features("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, server, "annex-system", canaryGate, is(features.StateOff, features.SourceDynamic))
	})

	t.Run("a program without a server follows", func(t *testing.T) { followsTheAPI(t, server) })
}

// followsTheAPI has a program's gates follow features that --features and spec.desired set.
func followsTheAPI(t *testing.T, server *framework.Server) {
	if _, err := server.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "frob-system"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	own := basegate.NewVersionedFeatureGate(version.MajorMinor(1, 2))
	if err := own.Add(map[basegate.Feature]basegate.FeatureSpec{
		"Foo": {Default: false, PreRelease: basegate.Alpha}, "Bar": {Default: false, PreRelease: basegate.Alpha},
	}); err != nil {
		t.Fatal(err)
	}
	changes := make(chan bool, 10)
	program, err := featuregate.New(own, featuregate.Options{Component: "frobber", Version: "v1.2.3", Namespace: "frob-system", Instance: "one"},
		featuregate.FromAPI("Foo"), featuregate.FromAPI("Bar", func(_ context.Context, on bool) { changes <- on }))
	if err != nil {
		t.Fatal(err)
	}
	program.Enabled("Bar")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- program.Run(ctx, server.Config) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})

	// The state is permitted at once, On when all reporters have answered.
	foo := eventually(t, server, "frob-system", "Foo", func(f *features.Feature) string {
		if !program.Enabled("Foo") || f.Status.State != features.StateOn {
			return fmt.Sprintf("it is %s, and for the program %t", f.Status.State, program.Enabled("Foo"))
		}
		return ""
	})
	if foo.Status.Source != features.SourceCommandLine || foo.Status.Dynamic {
		t.Errorf("the status is %+v, want the source CommandLine, and not dynamic", foo.Status)
	}
	if err := desire(t, server, "frob-system", "Foo", features.ValueDisabled); !apierrors.IsForbidden(err) {
		t.Errorf("setting what is not dynamic: got %v, want 403", err)
	}

	eventually(t, server, "frob-system", "Bar", func(f *features.Feature) string {
		if f.Status.State != features.StateOff {
			return fmt.Sprintf("it is %s, want Off", f.Status.State)
		}
		return ""
	})
	for _, value := range []features.Value{features.ValueEnabled, features.ValueDisabled} {
		if err := desire(t, server, "frob-system", "Bar", value); err != nil {
			t.Fatal(err)
		}
		select {
		case on := <-changes:
			if want := value == features.ValueEnabled; on != want || program.Enabled("Bar") != want {
				t.Errorf("after %s the program is told %t and sees %t", value, on, program.Enabled("Bar"))
			}
		case <-time.After(time.Minute):
			t.Fatalf("the program did not follow %s within a minute", value)
		}
		eventually(t, server, "frob-system", "Bar", func(f *features.Feature) string {
			if len(f.Status.Tasks) > 0 || f.Status.Configured != value || f.Status.Source != features.SourceDynamic {
				return fmt.Sprintf("it is %s by %s with the tasks %+v", f.Status.Configured, f.Status.Source, f.Status.Tasks)
			}
			return ""
		})
	}
}
