// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectlfeature

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	nodev1alpha1 "github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// serve runs an engine that moves features of a namespace until the test ends.
func (p *plugin) serve(t *testing.T, namespace string, features ...lifecycle.Feature) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := p.server.Kubernetes.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	engine, err := lifecycle.New(lifecycle.Options{
		Component: "server", Instance: "server-0", Version: "v1.0.0", Namespace: namespace, Features: features,
		Client: p.server.Annex, Leases: p.server.Kubernetes.CoordinationV1(),
		Timings: lifecycle.Timings{
			LeaseDuration: 4 * time.Second, RenewInterval: 500 * time.Millisecond, AnswerWindow: 100 * time.Millisecond, WriteGrace: -1,
			RetryBase: time.Second, ProgressInterval: 50 * time.Millisecond, Poll: 50 * time.Millisecond,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for _, feature := range features {
		p.waitUntilOff(t, namespace, feature.Name)
	}
}

func (p *plugin) waitUntilOff(t *testing.T, namespace, name string) {
	t.Helper()
	framework.Eventually(t, patience, func() error {
		feature, err := p.server.Annex.FeaturesV1alpha1().Features(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return poll.Want(feature.Status.State == v1alpha1.StateOff, feature.Status.String())
	})
}

// testLive turns features on and off whose server works on them.
func testLive(t *testing.T, p *plugin) {
	steps := lifecycle.Task{Name: "Prepare", Run: func(ctx context.Context, progress *lifecycle.Progress) error {
		for i := range int64(4) {
			progress.Done(i, 4)
			if err := progress.Wait(ctx, 200*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	}}
	failing := lifecycle.Task{Name: "Prepare", Run: func(context.Context, *lifecycle.Progress) error { return errors.New("disk is full") }}
	feature := func(name string, dynamic bool, on lifecycle.Task) lifecycle.Feature {
		return lifecycle.Feature{Name: name, Default: v1alpha1.ValueDisabled, Configured: v1alpha1.ValueDisabled, Stability: v1alpha1.StabilityBeta, Dynamic: dynamic, On: []lifecycle.Task{on}}
	}
	p.serve(t, "live", feature("Good", true, steps), feature("Bad", true, failing), feature("Fixed", false, steps))

	p.want(t, 0, `\Afeature\.features\.k8s\.io/Good is to be Enabled\n.*^Good TurningOn: Prepare \[[#-]{20}\] \d+% \d/4.*^Good TurningOn: WaitForUses.*^Good On\n\z`, "",
		"enable", "Good", "-n", "live", "--wait")
	p.want(t, 0, `^Good +On .*Dynamic`, "", "list", "-n", "live", "--state", "On")
	p.want(t, 0, `^Good TurningOff: WaitForUses.*^Good Off\n\z`, "", "disable", "Good", "-n", "live", "--wait")
	p.want(t, 1, `^Bad TurningOn: Prepare Failed`, `\Aerror: the task Prepare failed \(attempt \d+\): disk is full`, "enable", "Bad", "-n", "live", "--wait")
	p.want(t, 0, `^Bad +TurningOn`, "", "list", "-n", "live", "--unsettled")
	p.want(t, 1, `^live +Bad +TurningOn +Beta +False +Transition`, "stands in the way", "upgrade-check", "-n", "live")
	p.want(t, 0, `^Bad Off\n\z`, "", "disable", "Bad", "-n", "live", "--wait")
	p.want(t, 0, "", `Of 3 features none stands in the way of an upgrade`, "upgrade-check", "-n", "live")
	p.want(t, 1, "", `--dynamic-features=live/Fixed`, "enable", "Fixed", "-n", "live", "--wait")
}

// testOwn turns a feature of Annex itself on and off, which clears what it gates.
func testOwn(t *testing.T, p *plugin) {
	const namespace, name = "annex-system", "NodeBalloonReclaimPolicy"
	p.waitUntilOff(t, namespace, name)
	p.want(t, 0, `^NodeBalloonReclaimPolicy On\n\z`, "", "enable", name, "-n", namespace, "--wait")
	balloons := p.server.Annex.NodeV1alpha1().NodeBalloons()
	made, err := balloons.Create(t.Context(), &nodev1alpha1.NodeBalloon{
		ObjectMeta: metav1.ObjectMeta{Name: "own"},
		Spec:       nodev1alpha1.NodeBalloonSpec{BalloonSize: corev1.ResourceList{"cpu": resource.MustParse("1")}, ReclaimPolicy: ptr.To(nodev1alpha1.ReclaimHold)},
	}, metav1.CreateOptions{})
	if err != nil || made.Spec.ReclaimPolicy == nil {
		t.Fatalf("with the feature on: %+v, %v", made, err)
	}
	p.want(t, 0, `Dynamic: +true\n.*^  annex\S* +\S+ +Enabled`, "", "describe", name, "-n", namespace)
	p.want(t, 1, `^annex-system +NodeBalloonReclaimPolicy +On +Alpha +False +AlphaOn`, "stands in the way", "upgrade-check", "-n", namespace)
	p.want(t, 0, `^NodeBalloonReclaimPolicy TurningOff: .*^NodeBalloonReclaimPolicy Off\n\z`, "", "disable", name, "-n", namespace, "--wait")
	if left, err := balloons.Get(t.Context(), "own", metav1.GetOptions{}); err != nil || left.Spec.ReclaimPolicy != nil {
		t.Errorf("with the feature off: %+v, %v", left, err)
	}
}
