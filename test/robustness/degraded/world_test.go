// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package degraded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/kube-annex/annex/controllers/clusterclaims/clusterid"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/syncbuffer"
)

// patience is how long anything may take on a machine that has much else to do. A full etcd tries to make room for a twentieth of the time,
// so that one attempt of seconds is followed by a minute or two of rest.
const patience = 150 * time.Second

// annex is everything of Annex in this process, on a directory of its own. Others may fail it before, and while it starts.
type annex struct {
	t      *testing.T
	dir    string
	change func(*standalone.Options)

	// extension is where the extension apiserver listens.
	extension string

	server *standalone.Server
	out    *syncbuffer.Buffer
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
	*clients
}

// clients have all rights.
type clients struct {
	config      *rest.Config
	kubernetes  kubernetes.Interface
	definitions apiextensions.Interface
	services    aggregatorclient.Interface
	dynamic     dynamic.Interface
	annexKinds  versioned.Interface
}

// newAnnex has not started yet.
func newAnnex(t *testing.T, change func(*standalone.Options)) *annex {
	t.Helper()
	return &annex{t: t, dir: t.TempDir(), change: change}
}

// start returns when the server is ready.
func start(t *testing.T, change func(*standalone.Options)) *annex {
	t.Helper()
	a := newAnnex(t, change)
	a.begin()
	a.waitReady()
	return a
}

// begin starts the server, and returns when its control plane can be asked.
func (a *annex) begin() {
	a.t.Helper()
	o := standalone.NewOptions()
	o.DataDir = a.dir
	o.ControlPlane.Serving.Port, o.Extension.Serving.Port = 0, 0
	o.Controllers.ClusterID.Source = clusterid.SourceNone
	listener, err := o.Extension.Serving.Listen(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	o.Extension.Serving.Listener, a.extension = listener, listener.Addr().String()
	a.out = &syncbuffer.Buffer{}
	o.Out = a.out
	// A server that cannot write, and so not give its Leases back, tries until they expire when it is told to stop.
	timings := &o.Leadership.Timings
	timings.LeaseDuration, timings.RenewDeadline, timings.RetryPeriod = 6*time.Second, 4*time.Second, time.Second
	// On a machine that is much too slow for that, the process of the tests goes on.
	o.Leadership.Exit = func(int) {}
	if a.change != nil {
		a.change(o)
	}
	completed, err := o.Complete()
	if err != nil {
		a.t.Fatal(err)
	}
	a.server, a.ended = standalone.New(completed), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	ended := a.ended
	_ = os.Remove(a.server.Kubeconfig())
	go func() {
		defer close(ended)
		a.err = a.server.Run(ctx)
	}()
	a.t.Cleanup(a.stop)
	framework.Eventually(a.t, patience, func() error {
		select {
		case <-a.ended:
			a.t.Fatalf("it ended before it could be asked: %v\n%s", a.err, a.out)
		default:
		}
		if _, err := os.Stat(a.server.Kubeconfig()); err != nil {
			return err
		}
		a.clients = a.connect()
		_, err := a.kubernetes.CoreV1().Namespaces().List(a.t.Context(), metav1.ListOptions{})
		return err
	})
}

func (a *annex) waitReady() {
	a.t.Helper()
	select {
	case <-a.server.Ready():
	case <-a.ended:
		a.t.Fatalf("it ended before it was ready: %v\n%s", a.err, a.out)
	case <-time.After(patience):
		a.t.Fatalf("it was not ready after %s:\n%s", patience, a.out)
	}
}

// stop ends the server as Ctrl-C does. It may be stopped already.
func (a *annex) stop() {
	a.t.Helper()
	a.cancel()
	select {
	case <-a.ended:
		if a.err != nil {
			a.t.Errorf("it ended with %v", a.err)
		}
	case <-time.After(patience):
		a.t.Fatalf("it has not stopped after %s:\n%s", patience, a.out)
	}
}

// connect reads the kubeconfig, as any program does that is started now.
func (a *annex) connect() *clients {
	a.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", a.server.Kubeconfig())
	if err != nil {
		a.t.Fatal(err)
	}
	config.QPS = -1
	return clientsFor(a.t, config)
}

func clientsFor(t *testing.T, config *rest.Config) *clients {
	t.Helper()
	c := &clients{config: config}
	var errs [5]error
	c.kubernetes, errs[0] = kubernetes.NewForConfig(config)
	c.definitions, errs[1] = apiextensions.NewForConfig(config)
	c.services, errs[2] = aggregatorclient.NewForConfig(config)
	c.dynamic, errs[3] = dynamic.NewForConfig(config)
	c.annexKinds, errs[4] = versioned.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return c
}

// get returns what a GET of the path is answered with.
func (c *clients) get(t *testing.T, path string) (code int, body string) {
	t.Helper()
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(content)
}

// want fails the test unless the path is answered with the code, and with all of the texts.
func (c *clients) want(t *testing.T, path string, code int, texts ...string) {
	t.Helper()
	if err := c.check(t, path, code, texts...); err != nil {
		t.Error(err)
	}
}

func (c *clients) check(t *testing.T, path string, code int, texts ...string) error {
	t.Helper()
	got, body := c.get(t, path)
	if got != code {
		return fmt.Errorf("%s: %d %.300s, want %d", path, got, body, code)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			return fmt.Errorf("%s: %.300s, want it to have %q", path, body, text)
		}
	}
	return nil
}

// configMap creates one. Its data is what nothing may lose.
func (c *clients) configMap(t *testing.T, name string, labels ...string) error {
	t.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Data: map[string]string{"name": name}}
	for _, label := range labels {
		configMap.Labels[label] = "yes"
	}
	_, err := c.kubernetes.CoreV1().ConfigMaps("default").Create(t.Context(), configMap, metav1.CreateOptions{})
	return err
}

// mustHave fails the test unless ConfigMaps are as configMap has created them.
func (c *clients) mustHave(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		configMap, err := c.kubernetes.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || configMap.Data["name"] != name {
			t.Errorf("ConfigMap %s: got %v, %v", name, configMap.Data, err)
		}
	}
}

// refused fails the test unless the error has the code and all of the texts.
func refused(t *testing.T, what string, err error, code int32, texts ...string) {
	t.Helper()
	if problem := notRefused(err, code, texts...); problem != nil {
		t.Errorf("%s: %v", what, problem)
	}
}

func notRefused(err error, code int32, texts ...string) error {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Code != code {
		return fmt.Errorf("got %v, want %d", err, code) //nolint:errorlint // it may be nil
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			return fmt.Errorf("got %w, want it to have %q", err, text)
		}
	}
	return nil
}

// read returns a file of the server's directory.
func (a *annex) read(elements ...string) []byte {
	a.t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{a.dir}, elements...)...))
	if err != nil {
		a.t.Fatal(err)
	}
	return content
}
