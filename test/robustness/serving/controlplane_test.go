// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/install"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/replicas"
)

const (
	// roleHost is what this program does as the process of a host.
	roleHost  = "host"
	proxyUser = "annex-aggregator"
)

// resolve finds a server behind the aggregator.
type resolve func() (*url.URL, error)

// ResolveEndpoint implements the aggregator's resolver of services.
func (r resolve) ResolveEndpoint(string, string, int32) (*url.URL, error) { return r() }

// runHost runs a control plane whose certificates are files that a test can replace. What is behind its aggregator is at one address, or
// the replicas that are ready.
func runHost(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(roleHost, flag.ContinueOnError)
	live, data := flags.String("live", "", ""), flags.String("data", "", "")
	behind, among := flags.String("behind", "", ""), flags.String("replicas", "", "")
	o, storage := controlplane.NewOptions(), etcd.NewOptions()
	flags.IntVar(&o.Serving.Port, "port", 0, "")
	flags.StringVar(&storage.CAFile, "etcd-ca", "", "")
	flags.StringVar(&storage.CertFile, "etcd-cert", "", "")
	flags.StringVar(&storage.KeyFile, "etcd-key", "", "")
	flags.Func("etcd", "", func(server string) error { storage.Servers = []string{server}; return nil })
	klog.InitFlags(flags)
	if err := flags.Parse(append([]string{"-v=2"}, args...)); err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(*live, name) }
	o.Serving.BindAddress = net.IPv4(127, 0, 0, 1)
	o.Serving.CertFile, o.Serving.KeyFile = file("host.crt"), file("host.key")
	o.ClientCAFile = file("client-ca.crt")
	o.RequestHeader.ClientCAFile, o.RequestHeader.AllowedNames = file("proxy-ca.crt"), []string{proxyUser}
	o.ProxyClientCertFile, o.ProxyClientKeyFile = file("proxy.crt"), file("proxy.key")
	choose := func() (string, error) { return *behind, nil }
	var running sync.WaitGroup
	defer running.Wait()
	if *among != "" {
		p := replicas.New(strings.Split(*among, ",")...)
		choose = p.Choose
		tlsConfig, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: file("serving-ca.crt")}})
		if err != nil {
			return err
		}
		running.Go(func() { p.Run(ctx, tlsConfig) })
	}
	o.ServiceResolver = resolve(func() (*url.URL, error) {
		address, err := choose()
		return &url.URL{Scheme: "https", Host: address}, err
	})
	completed, err := o.Complete()
	if err != nil {
		return err
	}
	completedStorage, err := storage.Complete(*data)
	if err != nil {
		return err
	}
	backend, err := completedStorage.Start(ctx)
	if err != nil {
		return err
	}
	defer backend.Stop()
	return controlplane.New(completed, backend).Run(ctx)
}

// host is a control plane as a process of its own, to which a test tells where the servers behind its aggregator are.
type host struct {
	*program
	dir string
	// directory has all certificates; those that are in use are files in live.
	directory *pki.Directory
	live      string
	url       string
	admin     *rest.Config
	// extensions is the authority of extension apiservers as clients.
	extensions string
}

// newHost does not start it.
func newHost(t *testing.T) *host {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h := &host{dir: dir, extensions: "client-ca", live: filepath.Join(dir, "live"), program: &program{t: t, name: roleHost, log: filepath.Join(dir, "host.log")}}
	if h.directory, err = pki.Open(filepath.Join(dir, "pki")); err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{h.live, h.data()} {
		if err = os.MkdirAll(made, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.use("serving-ca.crt", h.authority("serving-ca").CertPEM())
	h.use("client-ca.crt", h.authority("client-ca").CertPEM())
	h.use("proxy-ca.crt", h.authority("proxy-ca").CertPEM())
	h.usePair("host", h.serving("serving-ca", "host"))
	h.usePair("extension", h.serving("serving-ca", "extension"))
	h.usePair("proxy", h.client("proxy-ca", proxyUser))
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	h.url = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	h.admin = h.as("client-ca", "admin", "system:masters")
	h.command = []string{self, roleHost, "-live=" + h.live, "-port=" + strconv.Itoa(port)}
	return h
}

// start starts the host with more flags, and waits until it is ready.
func (h *host) start(more ...string) {
	h.t.Helper()
	if !slices.ContainsFunc(more, func(flag string) bool { return strings.HasPrefix(flag, "-etcd=") }) {
		more = append(more, "-data="+h.data())
	}
	h.command = append(h.command, more...)
	h.program.start()
	client, err := kubernetes.NewForConfig(h.admin)
	if err != nil {
		h.t.Fatal(err)
	}
	poll.Eventually(h.t, patience, "the host is ready", func(ctx context.Context) error {
		if err := h.alive(); err != nil {
			h.t.Fatal(err)
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(2 * time.Second).MaxRetries(0).Do(ctx).Error()
	})
}

func (h *host) data() string { return filepath.Join(h.dir, "data") }

// socket is where others reach its embedded store.
func (h *host) socket() string { return "unix://" + filepath.Join(h.data(), "etcd", "client.sock") }

func (h *host) file(name string) string { return filepath.Join(h.live, name) }

func (h *host) authority(name string) *pki.Authority {
	h.t.Helper()
	authority, err := h.directory.Authority(name, name)
	if err != nil {
		h.t.Fatal(err)
	}
	return authority
}

// serving and client make certificates, each call another one.
func (h *host) serving(authority, name string) pki.Pair {
	h.t.Helper()
	return h.made(h.authority(authority).Serving(h.unique(name), append([]string{"kubernetes.default.svc"}, servedAs...)...))
}

func (h *host) client(authority, user string, groups ...string) pki.Pair {
	h.t.Helper()
	return h.made(h.authority(authority).Client(h.unique(user), user, groups...))
}

func (h *host) made(pair pki.Pair, err error) pki.Pair {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	return pair
}

func (h *host) unique(name string) string {
	for i := 0; ; i++ {
		unique := name + "-" + strconv.Itoa(i)
		if _, err := os.Stat(filepath.Join(h.directory.Path(), unique+".crt")); err != nil {
			return unique
		}
	}
}

// use puts content into a file that is in use.
func (h *host) use(name string, content []byte) {
	h.t.Helper()
	if err := pki.WriteFile(h.file(name), content, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// usePair puts a certificate and its key in the place of those in use, one after the other.
func (h *host) usePair(name string, pair pki.Pair) {
	h.t.Helper()
	for ending, from := range map[string]string{".key": pair.KeyFile, ".crt": pair.CertFile} {
		content, err := os.ReadFile(from)
		if err != nil {
			h.t.Fatal(err)
		}
		h.use(name+ending, content)
	}
}

// as returns a configuration of a user.
func (h *host) as(authority, user string, groups ...string) *rest.Config {
	h.t.Helper()
	pair := h.client(authority, user, groups...)
	return &rest.Config{
		Host: h.url, QPS: -1, WarningHandler: rest.NoWarnings{},
		TLSClientConfig: rest.TLSClientConfig{CAFile: h.file("serving-ca.crt"), CertFile: pair.CertFile, KeyFile: pair.KeyFile},
	}
}

// kubeconfig is for an extension apiserver, with all rights.
func (h *host) kubeconfig(authority string) string {
	h.t.Helper()
	pair := h.client(authority, "extension", "system:masters")
	path := filepath.Join(h.dir, h.unique("kubeconfig"))
	if err := pki.WriteKubeconfig(path, h.url, h.file("serving-ca.crt"), pair); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// replica returns an extension apiserver that serves with the certificate extension.crt, and does not start it.
func (h *host) replica(name string, args ...string) *extension {
	h.t.Helper()
	e := newExtension(h.t, name, h.kubeconfig(h.extensions), args...)
	e.ca = h.authority("serving-ca")
	for i, argument := range e.command {
		switch argument {
		case "--tls-cert-file=" + e.serving.CertFile:
			e.command[i] = "--tls-cert-file=" + h.file("extension.crt")
		case "--tls-private-key-file=" + e.serving.KeyFile:
			e.command[i] = "--tls-private-key-file=" + h.file("extension.key")
		}
	}
	return e
}

// register has the host send requests for the extension's kinds to the servers that its resolver finds, and waits until it does.
func (h *host) register() {
	h.t.Helper()
	client, err := apiregistrationclient.NewForConfig(h.admin)
	if err != nil {
		h.t.Fatal(err)
	}
	r := install.New()
	r.CABundle = h.authority("serving-ca").CertPEM()
	for _, service := range r.APIServices() {
		if _, err := client.APIServices().Create(h.t.Context(), service, metav1.CreateOptions{}); err != nil {
			h.t.Fatal(err)
		}
	}
	h.waitAvailable(client)
	caller := newCaller(h.t, "the administrator", h.admin)
	defer caller.leave()
	poll.Eventually(h.t, patience, "the host serves the extension's kinds", func(ctx context.Context) error { return caller.ask(ctx).err })
}

func (h *host) waitAvailable(client apiregistrationclient.APIServicesGetter) {
	h.t.Helper()
	poll.Eventually(h.t, patience, "the APIServices are available", func(ctx context.Context) error {
		services, err := client.APIServices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, service := range services.Items {
			for _, condition := range service.Status.Conditions {
				if condition.Type == apiregistrationv1.Available && condition.Status != apiregistrationv1.ConditionTrue {
					return fmt.Errorf("%s: %s", service.Name, condition.Message)
				}
			}
		}
		return nil
	})
}
