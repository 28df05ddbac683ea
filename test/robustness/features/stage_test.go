// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	featuresclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/features/v1alpha1"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

const (
	enabled  = v1alpha1.ValueEnabled
	disabled = v1alpha1.ValueDisabled

	patience = time.Minute
	interval = 20 * time.Millisecond
	// leaseDuration is of replicas that nothing is wrong with, and shortLease of those whose end is waited for.
	leaseDuration = 6 * time.Second
	shortLease    = 2 * time.Second
	// user is who the servers take everybody for.
	user = "tester"
)

// stage is where replicas of one server run.
type stage struct {
	t      *testing.T
	etcd   *clientv3.Client
	prefix string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return &stage{t: t, etcd: resourcetest.Etcd(), prefix: "/" + string(uuid.NewUUID())}
}

// child is a replica in a process of its own.
type child struct {
	t         *testing.T
	instance  string
	process   *cluster.Process
	features  featuresclient.FeatureInterface
	reporters coordinationclient.LeaseInterface
	widgets   dynamic.ResourceInterface
}

// start starts a replica and waits until it serves. It ends with the test. Nil is the direct way to etcd.
func (s *stage) start(settings settings, way *way) *child {
	s.t.Helper()
	settings.Etcd, settings.Prefix = s.etcd.Endpoints()[0], s.prefix
	if way != nil {
		settings.Etcd = "http://" + way.Address()
	}
	if settings.Version == "" {
		settings.Version = "v1.0.0"
	}
	if settings.Lease == 0 {
		settings.Lease = leaseDuration
	}
	text, err := json.Marshal(settings)
	if err != nil {
		s.t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	c := &child{t: s.t, instance: settings.Instance}
	c.process, err = cluster.StartProcess(settings.Instance, filepath.Join(s.t.TempDir(), settings.Instance+".log"), program, "-replica", string(text))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the end of the log of %s:\n%s", settings.Instance, c.process.Tail(30))
		}
		c.process.Kill()
	})
	var at addresses
	poll.Eventually(s.t, patience, "the replica "+settings.Instance+" serves", func(context.Context) error {
		select {
		case <-c.process.Done():
			return poll.Permanent(fmt.Errorf("the replica ended:\n%s", c.process.Tail(30)))
		default:
		}
		for line := range strings.Lines(c.process.Log()) {
			if text, found := strings.CutPrefix(line, ready); found && json.Unmarshal([]byte(text), &at) == nil {
				return nil
			}
		}
		return errors.New("it says: " + c.process.Tail(3))
	})
	c.connect(at)
	return c
}

func (c *child) connect(at addresses) {
	c.t.Helper()
	config := &rest.Config{Host: at.API, QPS: -1, Timeout: patience, WarningHandler: rest.NoWarnings{}}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	leases, err := coordinationclient.NewForConfig(&rest.Config{Host: at.Leases, QPS: -1, Timeout: patience})
	if err != nil {
		c.t.Fatal(err)
	}
	widgets, err := dynamic.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.features, c.reporters = client.FeaturesV1alpha1().Features(server.Namespace), leases.Leases(featuregate.LeaseNamespace)
	c.widgets = widgets.Resource(server.WidgetResource).Namespace("default")
}

// stop ends the replica as its user does.
func (c *child) stop() {
	c.t.Helper()
	if err := c.process.Stop(); err != nil {
		c.t.Error(err)
	}
}

func (c *child) signal(signal syscall.Signal) {
	c.t.Helper()
	if err := c.process.Signal(signal); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) get() (*v1alpha1.Feature, error) {
	return c.features.Get(c.t.Context(), color, metav1.GetOptions{})
}

// waitFor waits until the Feature is as described, as the replica shows it.
func (c *child) waitFor(what string, is func(f *v1alpha1.Feature) bool) *v1alpha1.Feature {
	c.t.Helper()
	var feature *v1alpha1.Feature
	poll.Eventually(c.t, patience, "the Feature is "+what, func(context.Context) error {
		var err error
		if feature, err = c.get(); err != nil {
			return err
		}
		if is(feature) {
			return nil
		}
		return fmt.Errorf("%+v", feature.Status)
	})
	return feature
}

func (c *child) waitForState(state v1alpha1.State) {
	c.t.Helper()
	c.waitFor(string(state), func(f *v1alpha1.Feature) bool {
		return f.Status.State == state && meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.FeatureSettled)
	})
}

func (c *child) desire(value v1alpha1.Value) {
	c.t.Helper()
	c.patch(fmt.Sprintf(`{"spec":{"desired":%q}}`, value))
}

func (c *child) patch(body string) {
	c.t.Helper()
	if _, err := c.features.Patch(c.t.Context(), color, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// expire has the Lease of a silent reporter expire as if the minutes were over that it lasts.
func (c *child) expire(instance string) {
	c.t.Helper()
	_, err := c.reporters.Patch(c.t.Context(), featuregate.LeaseName(server.Namespace, user, component, instance), types.MergePatchType, []byte(`{"spec":{"leaseDurationSeconds":1}}`), metav1.PatchOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
}

// holds fails if a condition complains at any time for a while.
func (s *stage) holds(d time.Duration, condition func() string) {
	s.t.Helper()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-ticker.C {
		if complaint := condition(); complaint != "" {
			s.t.Fatal(complaint)
		}
	}
}
