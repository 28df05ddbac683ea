// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	basegate "k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/test/framework/cluster"
)

// childRole is what a child process of this one does.
type childRole struct {
	name, kubeconfig, namespace string
	count                       int
	starts                      float64
}

const roleReporters = "reporters"

func (c *childRole) addFlags(flags *flag.FlagSet) {
	flags.StringVar(&c.name, "role", "", "for child processes")
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "for child processes")
	flags.StringVar(&c.namespace, "namespace", "", "for child processes")
	flags.IntVar(&c.count, "count", 0, "for child processes")
	flags.Float64Var(&c.starts, "per-second", 0, "for child processes")
}

func (c *childRole) run(ctx context.Context) error {
	if c.name != roleReporters {
		return fmt.Errorf("there is no role %q", c.name)
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	return runReporters(ctx, config, c.namespace, c.count, c.starts)
}

// startReporters runs reporters in a process that yields to others: in a cluster they are on other machines.
func startReporters(s settings, a *annex, namespace string) (*cluster.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return cluster.StartProcess("reporters", filepath.Join(s.dir, "reporters.log"), "nice", "-n", "10", self,
		"-role", roleReporters, "-kubeconfig", a.kubeconfig, "-namespace", namespace, "-count", fmt.Sprint(s.reporters), "-per-second", fmt.Sprint(s.starts))
}

// numberOfFeatures is how many each reporter has.
const numberOfFeatures = 50

// featureName returns the name of a feature; the first is the one that is asked about.
func featureName(i int) basegate.Feature {
	return basegate.Feature(fmt.Sprintf("SomeFeatureOfUsualLength%02d", i))
}

// componentOf returns who the i-th reporter is: most are of one component, a tenth of them already of its next version, and a few
// are of another one.
func componentOf(i int) (component, version string) {
	switch {
	case i%100 == 50:
		return "controller", "v1.0.0"
	case i%10 == 0:
		return "agent", "v1.1.0"
	}
	return "agent", "v1.0.0"
}

// kindsOfReporters is how many different components and versions there are.
const kindsOfReporters = 3

// runReporters starts gates, each with a connection of its own and all features in use, and runs them until the context ends. Only
// what holds the values of the command line, which are the same for all, is shared.
func runReporters(ctx context.Context, config *rest.Config, namespace string, count int, perSecond float64) error {
	base := basegate.NewVersionedFeatureGate(version.MustParse("1.37"))
	specs := map[basegate.Feature]basegate.VersionedSpecs{}
	for i := range numberOfFeatures {
		specs[featureName(i)] = basegate.VersionedSpecs{{Version: version.MustParse("1.30"), PreRelease: basegate.Beta, Default: true}}
	}
	if err := base.AddVersioned(specs); err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, klog.Logger{})
	var running sync.WaitGroup
	defer running.Wait()
	var reports atomic.Int64
	running.Go(func() { tell(ctx, &reports) })
	ticker := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer ticker.Stop()
	for i := range count {
		component, version := componentOf(i)
		gate, err := featuregate.New(base, featuregate.Options{Component: component, Version: version, Namespace: namespace, Instance: fmt.Sprintf("node-%d", i)},
			featuregate.FromAPI(featureName(0)))
		if err != nil {
			return err
		}
		for i := range numberOfFeatures {
			gate.Enabled(featureName(i))
		}
		running.Go(func() {
			own := separate(config)
			own.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, &reports} })
			if err := gate.Run(ctx, own); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
	<-ctx.Done()
	return nil
}

// counting counts reports on their way.
type counting struct {
	http.RoundTripper
	reports *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/featurereports") {
		c.reports.Add(1)
	}
	return c.RoundTripper.RoundTrip(request)
}

// saysReports begins the lines that tell how many reports were sent so far.
const saysReports = "reports sent: "

// tell prints how many reports were sent, once a second until the context ends.
func tell(ctx context.Context, reports *atomic.Int64) {
	for said := int64(-1); pause(ctx, time.Second) == nil; {
		if now := reports.Load(); now != said {
			fmt.Printf("%s%d\n", saysReports, now)
			said = now
		}
	}
}

// reportsOf is how many reports the child has told of.
func reportsOf(child *cluster.Process) (reports int) {
	for line := range strings.SplitSeq(child.Log(), "\n") {
		if text, ok := strings.CutPrefix(line, saysReports); ok {
			_, _ = fmt.Sscan(text, &reports)
		}
	}
	return reports
}
