// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	featuresclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/features/v1alpha1"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/integration/gatedfields/gates"
	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

// programs are processes of a component that follows the feature, played by gates in this process, beside one replica of the server.
type programs struct {
	*stage
	client    featuregate.Client
	features  featuresclient.FeatureInterface
	reporters coordinationclient.LeaseInterface
	gates     map[string]*featuregate.Gate
	end       context.CancelFunc
	running   sync.WaitGroup
}

// startPrograms starts a replica whose feature is off, and follows spec.desired.
func startPrograms(t *testing.T, window time.Duration) *programs {
	t.Helper()
	p := &programs{stage: newStage(t)}
	with := settings{Instance: "server", Version: "v1.0.0", Prefix: p.prefix, Value: disabled, Dynamic: true, Lease: leaseDuration, Window: window}
	r := startReplica(t, with, p.etcd)
	engine, err := r.engine(with)
	if err != nil {
		t.Fatal(err)
	}
	if p.client, err = r.client(); err != nil {
		t.Fatal(err)
	}
	p.features = p.client.Features.Features(server.Namespace)
	leases, err := coordinationclient.NewForConfig(r.leases)
	if err != nil {
		t.Fatal(err)
	}
	p.reporters = leases.Leases(featuregate.LeaseNamespace)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { err = engine.Run(ctx) })
	t.Cleanup(func() {
		stop()
		if running.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

// run starts processes.
func (p *programs) run(clocks map[string]clock.Clock) {
	p.t.Helper()
	var ctx context.Context
	// They would say of each change that they follow it.
	ctx, p.end = context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	p.gates = map[string]*featuregate.Gate{}
	for instance, clock := range clocks {
		base, err := gates.New()
		if err != nil {
			p.t.Fatal(err)
		}
		options := featuregate.Options{Component: "program", Version: "v1.0.0", Namespace: server.Namespace, Instance: instance, Clock: clock}
		gate, err := featuregate.New(base, options, featuregate.FromAPI(gates.WidgetColor))
		if err != nil {
			p.t.Fatal(err)
		}
		gate.Enabled(gates.WidgetColor)
		p.gates[instance] = gate
		p.running.Go(func() {
			if err := gate.RunWith(ctx, p.client); err != nil {
				p.t.Errorf("%s ended with %v", instance, err)
			}
		})
	}
	for instance := range clocks {
		poll.Eventually(p.t, patience, instance+" has seen the Features", func(context.Context) error {
			lease, err := p.reporters.Get(p.t.Context(), featuregate.LeaseName(server.Namespace, user, "program", instance), metav1.GetOptions{})
			if err == nil && lease.Annotations[featuregate.AnnotationObserved] == "" {
				err = errors.New("its Lease does not say so")
			}
			return err
		})
	}
}

// stop ends the processes.
func (p *programs) stop() {
	if p.end != nil {
		p.end()
	}
	p.running.Wait()
}

// enabled are the instances that see the feature enabled.
func (p *programs) enabled() sets.Set[string] {
	out := sets.New[string]()
	for instance, gate := range p.gates {
		if gate.Enabled(gates.WidgetColor) {
			out.Insert(instance)
		}
	}
	return out
}

func (p *programs) patch(body string) {
	p.t.Helper()
	if _, err := p.features.Patch(p.t.Context(), color, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

// waitForStand waits until the Feature is in a state, with the given first task if any.
func (p *programs) waitForStand(want string) {
	p.t.Helper()
	poll.Eventually(p.t, patience, "the Feature is "+want, func(context.Context) error {
		feature, err := p.features.Get(p.t.Context(), color, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := (&history{feature: feature}).stand(); got != want {
			return fmt.Errorf("it is %s: %+v", got, feature.Status)
		}
		return nil
	})
}

// messages collects what the first task says, until the returned function is called.
func (p *programs) messages() func() string {
	p.t.Helper()
	changes, err := p.features.Watch(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	var all []string
	var collecting sync.WaitGroup
	collecting.Go(func() {
		for event := range changes.ResultChan() {
			if feature, ok := event.Object.(*v1alpha1.Feature); ok && len(feature.Status.Tasks) > 0 {
				all = append(all, feature.Status.Tasks[0].Message)
			}
		}
	})
	return func() string {
		changes.Stop()
		collecting.Wait()
		return strings.Join(all, "\n")
	}
}
