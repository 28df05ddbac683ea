// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/generated/openapi/native"
	nativeregistry "github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/registry/native/coordination"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/server/featuregating"
	"github.com/kube-annex/annex/test/integration/gatedfields/api/v1alpha1"
	"github.com/kube-annex/annex/test/integration/gatedfields/gates"
	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

const (
	component = "widgets"
	color     = string(gates.WidgetColor)

	// ready begins the line with which a replica tells where it serves, and late the one about a write whose permit was old when it went on.
	ready = "ready "
	late  = "a write went on with an old permit"
)

// settings are what is special about a replica.
type settings struct {
	Instance, Version string
	// Etcd is how it reaches etcd, and Prefix where its keys begin there.
	Etcd, Prefix string
	// Value is what its command line says of the feature, and Dynamic that spec.desired says more.
	Value   featuresv1alpha1.Value
	Dynamic bool
	// Lease is how long it is live without a sign of life.
	Lease time.Duration
	// Window is how long reporters have to answer; 0 means hardly any time.
	Window time.Duration
	// Linger is how long at most a write waits between its permit and the store.
	Linger time.Duration
	// Unguarded has writes compare nothing, which is a mistake.
	Unguarded bool
}

// addresses are where a replica serves widgets and Features, and Leases.
type addresses struct{ API, Leases string }

// replica is the server of widgets with all that Features need, in this process.
type replica struct {
	*server.Server
	leases *rest.Config
}

func startReplica(t testing.TB, s settings, etcd *clientv3.Client) replica {
	t.Helper()
	scheme := nativeregistry.Kinds{}.NewScheme()
	leases := resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme), Definitions: native.GetOpenAPIDefinitions,
		Version: coordination.GroupVersion, Install: resource.Installer(coordination.Kinds()), Prefix: s.Prefix + "/host", Etcd: etcd,
	})
	client, err := coordinationclient.NewForConfig(leases.Config)
	if err != nil {
		t.Fatal(err)
	}
	widgets := server.Start(t, server.Options{
		Reporters: featuregating.NewReporters(client),
		Own:       map[string]bool{color: s.Value == featuresv1alpha1.ValueEnabled}, Prefix: s.Prefix, Etcd: etcd,
		Around: func(permits resource.Permits) resource.Permits { return lingering{permits, s} },
	})
	return replica{Server: widgets, leases: leases.Config}
}

func runReplica(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Etcd}, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("reach etcd: %w", err)
	}
	defer func() { _ = etcd.Close() }()
	t := &lifetime{}
	defer t.end()
	r := startReplica(t, s, etcd)
	engine, err := r.engine(s)
	if err != nil {
		return err
	}
	gate, client, err := r.gate(s)
	if err != nil {
		return err
	}
	line, err := json.Marshal(addresses{API: r.Config.Host, Leases: r.leases.Host})
	if err != nil {
		return err
	}
	fmt.Println(ready + string(line))
	var running sync.WaitGroup
	running.Go(func() { err = gate.RunWith(ctx, client) })
	engineErr := engine.Run(ctx)
	running.Wait()
	if err == nil {
		err = engineErr
	}
	return err
}

// engine moves the feature as a third party's server would have it do.
func (r replica) engine(s settings) (*lifecycle.Engine, error) {
	config := rest.CopyConfig(r.Config)
	config.WarningHandler = rest.NoWarnings{}
	widgets, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	leases, err := coordinationclient.NewForConfig(r.leases)
	if err != nil {
		return nil, err
	}
	var fields []lifecycle.Gated
	for _, field := range v1alpha1.GatedFields() {
		if field.Gate == color {
			fields = append(fields, lifecycle.Gated{Field: field, Client: widgets.Resource(server.WidgetResource)})
		}
	}
	return lifecycle.New(lifecycle.Options{
		Component: component, Instance: s.Instance, Version: s.Version, Namespace: server.Namespace, Client: client, Leases: leases,
		Timings: lifecycle.Timings{
			LeaseDuration: s.Lease, RenewInterval: s.Lease / 4, AnswerWindow: cmp.Or(s.Window, 200*time.Millisecond), WriteGrace: -1,
			RetryBase: 50 * time.Millisecond, RetryMax: time.Second, ProgressInterval: 100 * time.Millisecond, Poll: 50 * time.Millisecond,
		},
		Features: []lifecycle.Feature{{
			Name: color, Default: featuresv1alpha1.ValueDisabled, Configured: s.Value, Source: featuresv1alpha1.SourceCommandLine,
			Stability: featuresv1alpha1.StabilityBeta, Dynamic: s.Dynamic, Off: []lifecycle.Task{lifecycle.ClearField(nil, fields...)},
			Count: lifecycle.CountObjects(lifecycle.Kind{
				Resource: server.WidgetResource.GroupResource(), Client: widgets.Resource(server.WidgetResource),
				Uses: func(object *unstructured.Unstructured) bool {
					_, found, _ := unstructured.NestedString(object.Object, "spec", "color")
					return found
				},
			}),
		}},
	})
}

// gate reports what the replica uses.
func (r replica) gate(s settings) (*featuregate.Gate, featuregate.Client, error) {
	base, err := gates.New()
	if err == nil {
		err = base.Set(fmt.Sprintf("%s=%t", color, s.Value == featuresv1alpha1.ValueEnabled))
	}
	if err != nil {
		return nil, featuregate.Client{}, err
	}
	gate, err := featuregate.New(base, featuregate.Options{Component: component, Version: s.Version, Namespace: server.Namespace, Instance: s.Instance},
		featuregate.FromAPI(gates.WidgetColor))
	if err != nil {
		return nil, featuregate.Client{}, err
	}
	gate.Enabled(gates.WidgetColor)
	client, err := r.client()
	return gate, client, err
}

// client is for gates.
func (r replica) client() (featuregate.Client, error) {
	features, err := versioned.NewForConfig(r.Config)
	if err != nil {
		return featuregate.Client{}, err
	}
	return featuregate.Client{Features: features.FeaturesV1alpha1()}, nil
}

// lingering lets time pass between what a feature permits and the write that it is for, in which a replica can be stopped.
type lingering struct {
	resource.Permits
	settings settings
}

func (p lingering) Read(ctx context.Context, gate string) (resource.Permit, error) {
	return p.after(p.Permits.Read(ctx, gate))
}

func (p lingering) Recall(ctx context.Context, gate string) (resource.Permit, error) {
	return p.after(p.Permits.Recall(ctx, gate))
}

func (p lingering) after(permit resource.Permit, err error) (resource.Permit, error) {
	if err != nil || permit.Permission != resource.Permitted {
		return permit, err
	}
	if p.settings.Linger > 0 {
		began := time.Now()
		<-time.After(rand.N(p.settings.Linger))
		if time.Since(began) > p.settings.Linger+time.Second {
			fmt.Println(late)
		}
	}
	if p.settings.Unguarded {
		permit.Key, permit.Revision = "/no/such/key", 0
	}
	return permit, nil
}

// lifetime is what the servers need of a test, in a process that is none.
type lifetime struct {
	testing.TB
	cleanups []func()
}

func (l *lifetime) Helper() {}

func (l *lifetime) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

func (l *lifetime) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

func (l *lifetime) Fatalf(format string, args ...any) { l.Fatal(fmt.Sprintf(format, args...)) }

func (l *lifetime) end() {
	for _, f := range slices.Backward(l.cleanups) {
		f()
	}
}
