// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	basegate "k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/generated/clientset/versioned/scheme"
	"github.com/kube-annex/annex/test/framework"
)

const patience = time.Minute

// TestAgainstAnnex runs what follows against one server, each in a namespace of its own.
func TestAgainstAnnex(t *testing.T) {
	server := framework.Start(t)
	for name, test := range map[string]func(*testing.T, *world){
		"what is used is reported once":         testReports,
		"reports show that a gate runs":         testSignOfLife,
		"gates follow the API":                  testFollows,
		"the API may be away":                   testAway,
		"questions are answered in time":        testQuestion,
		"no answer before the program was told": testNoAnswerBeforeTold,
		"a full Feature holds back the answer":  testFull,
		"many processes cost little":            testMany,
		"many that follow report once":          testManyFollow,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, server))
		})
	}
}

// TestNothingIsLeft runs a gate to its end and looks for goroutines of this package. The server, which has a gate too, is over by then.
func TestNothingIsLeft(t *testing.T) {
	server := framework.Start(t)
	w := newWorld(t, server)
	gate := w.gate("one", featuregate.FromAPI("Alpha", func(context.Context, bool) {}))
	stop := w.run(gate, w.server.Config)
	w.leaseWith("one", featuregate.AnnotationObserved)
	stop()
	server.Stop(t)
	stacks := make([]byte, 1<<22)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "annex/featuregate.(") {
			t.Errorf("this is left after Run:\n%s", stack)
		}
	}
}

// world is a namespace in which gates of the component "tested" run.
type world struct {
	t         *testing.T
	server    *framework.Server
	namespace string
}

var worlds atomic.Int32

func newWorld(t *testing.T, server *framework.Server) *world {
	t.Helper()
	w := &world{t: t, server: server, namespace: fmt.Sprintf("gates-%d", worlds.Add(1))}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if _, err := server.Kubernetes.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) options(instance string) featuregate.Options {
	return featuregate.Options{Component: "tested", Version: "v1.2.3+x", Namespace: w.namespace, Instance: instance}
}

func base(t *testing.T) basegate.MutableVersionedFeatureGate {
	t.Helper()
	gate := basegate.NewVersionedFeatureGate(version.MustParse("1.31"))
	err := gate.AddVersioned(map[basegate.Feature]basegate.VersionedSpecs{
		"Alpha":  {{Version: version.MustParse("1.29"), PreRelease: basegate.Alpha}},
		"Beta":   {{Version: version.MustParse("1.29"), PreRelease: basegate.Beta, Default: true}},
		"Locked": {{Version: version.MustParse("1.29"), PreRelease: basegate.GA, Default: true, LockToDefault: true}},
		"Unused": {{Version: version.MustParse("1.29"), PreRelease: basegate.Beta, Default: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return gate
}

func (w *world) gate(instance string, more ...featuregate.Option) *featuregate.Gate {
	w.t.Helper()
	return w.gateWith(w.options(instance), more...)
}

func (w *world) gateWith(options featuregate.Options, more ...featuregate.Option) *featuregate.Gate {
	w.t.Helper()
	gate, err := featuregate.New(base(w.t), options, more...)
	if err != nil {
		w.t.Fatal(err)
	}
	return gate
}

// run runs the gate until the test ends, or the returned function is called.
func (w *world) run(gate *featuregate.Gate, config *rest.Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- gate.Run(ctx, config) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				w.t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			w.t.Errorf("Run did not return")
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// wait polls until the condition holds. The condition says what it saw.
func (w *world) wait(what string, condition func() (bool, any)) {
	w.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for {
		ok, saw := condition()
		if ok {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			w.t.Fatalf("%s: not within %s; last seen: %v", what, patience, saw)
		}
	}
}

func (w *world) feature(name string) *featuresv1alpha1.Feature {
	w.t.Helper()
	feature, err := w.server.Annex.FeaturesV1alpha1().Features(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return feature
}

// set writes the status of a Feature, which it makes first where there is none.
func (w *world) set(name string, edit func(*featuresv1alpha1.FeatureStatus)) *featuresv1alpha1.Feature {
	w.t.Helper()
	client := w.server.Annex.FeaturesV1alpha1().Features(w.namespace)
	feature := &featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.Create(w.t.Context(), feature, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	var written *featuresv1alpha1.Feature
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current := w.feature(name)
		edit(&current.Status)
		var err error
		written, err = client.UpdateStatus(w.t.Context(), current, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return written
}

func (w *world) waitForUse(name string, value featuresv1alpha1.Value) {
	w.t.Helper()
	w.wait("the use of "+name, func() (bool, any) {
		feature := w.feature(name)
		for _, use := range feature.Status.Uses {
			if use.Component == "tested" && use.Version == "v1.2.3+x" && use.Value == value {
				return true, nil
			}
		}
		return false, feature.Status.Uses
	})
}

// lease returns the sign of life of an instance, which is empty if there is none.
func (w *world) lease(instance string) *coordinationv1.Lease {
	w.t.Helper()
	list, err := w.server.Kubernetes.CoordinationV1().Leases(featuregate.LeaseNamespace).List(w.t.Context(),
		metav1.ListOptions{LabelSelector: featuregate.LabelNamespace + "=" + w.namespace + "," + featuregate.LabelComponent + "=tested"})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if lease := &list.Items[i]; *lease.Spec.HolderIdentity == instance {
			return lease
		}
	}
	return &coordinationv1.Lease{}
}

func (w *world) leaseWith(instance, annotation string) *coordinationv1.Lease {
	w.t.Helper()
	var lease *coordinationv1.Lease
	w.wait("the annotation "+annotation, func() (bool, any) {
		lease = w.lease(instance)
		return lease.Annotations[annotation] != "", lease
	})
	return lease
}

// signOfLife is what counted counts reports as that have no uses.
const signOfLife = "POST signs of life"

// counted returns a configuration that counts requests by method and resource.
func (w *world) counted() (*rest.Config, func(methodAndResource string) int) {
	var mu sync.Mutex
	counts := map[string]int{}
	config := rest.CopyConfig(w.server.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			path := strings.Split(request.URL.Path, "/")
			for i, element := range path {
				if element == "namespaces" && len(path) > i+2 {
					of := request.Method + " " + path[i+2]
					if path[i+2] == "featurereports" && !hasUses(request) {
						of = signOfLife
					}
					mu.Lock()
					counts[of]++
					mu.Unlock()
				}
			}
			return next.RoundTrip(request)
		})
	})
	return config, func(of string) int {
		mu.Lock()
		defer mu.Unlock()
		return counts[of]
	}
}

// hasUses reports whether a request is a report of uses.
func hasUses(request *http.Request) bool {
	body, err := request.GetBody()
	if err != nil {
		return false
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return false
	}
	report := &featuresv1alpha1.FeatureReport{}
	_, _, err = scheme.Codecs.UniversalDeserializer().Decode(text, nil, report)
	return err == nil && len(report.Spec.Features) > 0
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// covers tells whether a Lease has observed a version.
func covers(t *testing.T, lease *coordinationv1.Lease, resourceVersion string) bool {
	t.Helper()
	observed := lease.Annotations[featuregate.AnnotationObserved]
	if observed == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(observed, resourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	return order >= 0
}

// skewed is a clock that is wrong by a constant.
type skewed struct {
	clock.RealClock
	by time.Duration
}

func (c skewed) Now() time.Time { return time.Now().Add(c.by) }
