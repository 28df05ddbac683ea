// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	flowcontrolmetrics "k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/extension"
)

// component is who reports the feature gates of the process.
const component = "annex"

// waitingNotice is when it is said that etcd is being waited for.
const waitingNotice = 2 * time.Second

// readyNotice is how often it is said what the control plane is not ready for.
const readyNotice = 3 * time.Second

// Server is everything in one process. It can be run once.
type Server struct {
	options CompletedOptions
	ready   chan struct{}
	// made and hostURL are there once ready is closed.
	made    *certificates
	hostURL string
	saying  sync.Mutex
}

// New returns a server that has not started anything.
func New(completed CompletedOptions) *Server {
	return &Server{options: completed, ready: make(chan struct{})}
}

// Ready is closed when the host serves the extension's kinds.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Kubeconfig returns the file with the administrator's credentials. It is there once Ready is closed.
func (s *Server) Kubeconfig() string { return filepath.Join(s.options.dataDir, "kubeconfig") }

// AdminConfig returns a client configuration with all rights. It may be called once Ready is closed. Its certificate is that of now: who
// stays longer than that is good for calls again.
func (s *Server) AdminConfig() *rest.Config {
	certPEM, keyPEM := s.made.admin.CurrentCertKeyContent()
	return &rest.Config{Host: s.hostURL, TLSClientConfig: rest.TLSClientConfig{CAData: s.made.servingCA.CertPEM(), CertData: certPEM, KeyData: keyPEM}}
}

// Run starts all parts, waits until the context or one of the parts ends, and stops all parts in order.
func (s *Server) Run(ctx context.Context) error {
	began := time.Now()
	lock, err := etcd.LockDataDir(s.options.dataDir)
	if err != nil {
		return err
	}
	s.say("data directory: %s", s.options.dataDir)
	err = s.runLocked(ctx, lock, began)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // what was still starting was told to stop
	}
	return errors.Join(err, lock.Unlock())
}

func (s *Server) runLocked(ctx context.Context, lock *etcd.Lock, began time.Time) error {
	// The ports come first: they are what most often goes wrong, and all else would be in vain.
	hostListener, err := s.options.ControlPlane.Serving.Listen(ctx)
	if err != nil {
		return err
	}
	defer closeUnused(hostListener)
	extensionListener, err := s.options.Extension.Serving.Listen(ctx)
	if err != nil {
		return err
	}
	defer closeUnused(extensionListener)

	// etcd comes before the certificates: it refuses a data directory of a newer version, in which nothing should be changed.
	backend, err := s.startStore(ctx, lock)
	if err != nil {
		return err
	}
	defer backend.Stop()
	making := time.Now()
	made, err := makeCertificates(filepath.Join(s.options.dataDir, "pki"), s.options.ControlPlane.Serving.BindAddress, s.options.Lifetimes)
	if err != nil {
		return err
	}
	s.say("certificates: ready in %s", milliseconds(time.Since(making)))
	return s.serve(ctx, backend, made, hostListener, extensionListener, began)
}

func (s *Server) startStore(ctx context.Context, lock *etcd.Lock) (*etcd.Backend, error) {
	began := time.Now()
	etcdOptions := *s.options.Etcd
	etcdOptions.Lock = lock
	completed, err := etcdOptions.Complete(s.options.dataDir)
	if err != nil {
		return nil, err
	}
	store := "embedded in " + filepath.Join(s.options.dataDir, "etcd")
	if len(etcdOptions.Servers) > 0 {
		store = strings.Join(etcdOptions.Servers, ",")
	}
	waiting := time.AfterFunc(waitingNotice, func() { s.say("etcd: waiting for %s to answer", store) })
	defer waiting.Stop()
	backend, err := completed.Start(ctx)
	if err != nil {
		return nil, err
	}
	s.say("etcd: ready in %s (%s)", milliseconds(time.Since(began)), store)
	return backend, nil
}

// serve runs both servers on the backend until the context or one of them ends.
func (s *Server) serve(ctx context.Context, backend *etcd.Backend, made *certificates, hostListener, extensionListener net.Listener, began time.Time) error {
	s.made, s.hostURL = made, "https://"+address(hostListener)
	extensionClient := newClient(s.hostURL, made.extensionClient, made.servingCA.CertPEM)
	defer extensionClient.close()
	controllersClient := newClient(s.hostURL, made.controllers, made.servingCA.CertPEM)
	defer controllersClient.close()
	renewal := &renewal{server: s, made: made, clients: []*client{extensionClient, controllersClient}}
	if err := renewal.writeKubeconfigs(); err != nil {
		return err
	}

	// One process is one reporter of what it uses.
	gates, err := extension.NewReporter(s.options.Gates, component, backend, extensionListener)
	if err != nil {
		return err
	}
	candidate, err := s.candidate(backend, controllersClient, gates)
	if err != nil {
		return err
	}
	annex, err := s.extension(backend, made, extensionListener, extensionClient, gates)
	if err != nil {
		return err
	}
	services := serviceResolver{extension: annex, address: extensionListener.Addr(), others: s.options.ControlPlane.ServiceResolver}
	host, err := s.host(backend, made, hostListener, services, candidate, gates)
	if err != nil {
		return err
	}
	servers := time.Now()
	// Each server registers these metrics when it is built, and uses them at once; side by side that is a race of the library.
	flowcontrolmetrics.Register()
	hostPart := start(ctx, "control plane", host.Run)
	extensionPart := start(ctx, "extension apiserver", annex.Run)
	starting := start(ctx, "start", func(ctx context.Context) error {
		return s.finish(ctx, began, servers, made, host, annex)
	})
	controllersPart := start(ctx, "controllers", func(ctx context.Context) error {
		select {
		case <-s.ready: // nobody has to wait for them
			return s.withIdentity(ctx, controllersHost(controllersClient), candidate.Run)
		case <-ctx.Done():
			return nil
		}
	})

	renewing := start(ctx, "certificates", renewal.run)

	died := waitForEnd(ctx, backend, starting, hostPart, extensionPart, controllersPart)
	s.say("stopping")
	_, _ = starting.stop(), renewing.stop()
	// Controllers give their Leases back through the host, and so does what the extension apiserver does about features.
	err = errors.Join(died, ignoreIf(died, controllersPart.stop()))
	annex.StopLifecycle()
	// Once the host has answered all it had, nothing new reaches the extension apiserver. etcd outlives both.
	hostPart.cancel()
	select {
	case <-host.Drained():
	case <-hostPart.done:
	}
	extensionPart.cancel()
	return errors.Join(err, ignoreIf(died, hostPart.stop()), ignoreIf(died, extensionPart.stop()))
}

// finish sees the start through: both servers ready, the APIServices registered and served, the kubeconfig announced.
func (s *Server) finish(ctx context.Context, began, servers time.Time, made *certificates, host *controlplane.Server, annex *extension.Server) error {
	hostReady, annexReady := host.Ready(), annex.Ready()
	waiting, missing := time.NewTicker(readyNotice), ""
	defer waiting.Stop()
	for hostReady != nil || annexReady != nil {
		select {
		case <-hostReady:
			s.say("control plane: ready in %s", milliseconds(time.Since(servers)))
			hostReady = nil
		case <-annexReady:
			s.say("extension apiserver: ready in %s", milliseconds(time.Since(servers)))
			annexReady = nil
		case <-waiting.C:
			missing = s.sayWhatIsMissing(ctx, missing)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	registering := time.Now()
	if err := s.register(ctx, made.servingCA.CertPEM); err != nil {
		return err
	}
	if err := waitServed(ctx, s.AdminConfig()); err != nil {
		return err
	}
	for _, version := range extension.GroupVersions() {
		s.say("apiservice: %s.%s is available", version.Version, version.Group)
	}
	s.say("apiservices: ready in %s", milliseconds(time.Since(registering)))
	s.say("ready in %.2f s at %s", time.Since(began).Seconds(), s.hostURL)
	s.say("")
	s.say("    export KUBECONFIG=%s", s.Kubeconfig())
	s.say("")
	close(s.ready)
	return nil
}

func (s *Server) host(backend *etcd.Backend, made *certificates, listener net.Listener, services serviceResolver, beside *leadership.Elector, gates *featuregate.Gate) (*controlplane.Server, error) {
	o := *s.options.ControlPlane
	o.Gates, o.Leadership = gates, s.options.Leadership
	o.Leadership.BeforeExit = s.beforeExit(backend)
	o.AdditionalElectors = []*leadership.Elector{beside}
	o.Policy = o.Policy.And(policy())
	o.FlowSchemas = append(slices.Clone(o.FlowSchemas), flowSchemas()...)
	if namespaces := s.options.Extension.Lifecycle.Namespaces(gates); len(namespaces) > 0 {
		o.Authorizers = append(slices.Clone(o.Authorizers), leasesIn(namespaces))
	}
	o.Serving.Listener = listener
	o.Serving.Certificate = made.host
	if len(o.ServiceAccounts.Issuers) == 0 {
		o.ServiceAccounts.Issuers, o.ServiceAccounts.SigningKeyFile = []string{serviceAccountIssuer}, made.serviceAccountKey
	}
	if o.ServiceAccounts.RootCAFile == "" {
		o.ServiceAccounts.RootCAFile = made.servingCA.CertFile()
	}
	o.ClientCAFile = made.clientCA.CertFile()
	if o.Signing.CertFile == "" {
		o.Signing.CertFile, o.Signing.KeyFile = made.clientCA.CertFile(), made.clientCA.KeyFile()
	}
	o.RequestHeader.ClientCAFile = made.proxyCA.CertFile()
	o.RequestHeader.AllowedNames = []string{proxyUser}
	proxy := made.proxy.files()
	o.ProxyClientCertFile, o.ProxyClientKeyFile = proxy.CertFile, proxy.KeyFile
	o.ServiceResolver, o.LocalDispatch = services, services.handler
	completed, err := o.Complete()
	if err != nil {
		return nil, fmt.Errorf("configure the control plane: %w", err)
	}
	return controlplane.New(completed, backend), nil
}

func (s *Server) extension(backend *etcd.Backend, made *certificates, listener net.Listener, host *client, gates *featuregate.Gate) (*extension.Server, error) {
	o := *s.options.Extension
	o.Gates, o.SharesLeaseStorage = gates, true
	o.Serving.Listener = listener
	o.Serving.Certificate = made.extension
	o.Host.Config = host.config()
	if o.ServiceResolver == nil {
		o.ServiceResolver = serviceResolver{address: listener.Addr(), others: s.options.ControlPlane.ServiceResolver}
	}
	completed, err := o.Complete()
	if err != nil {
		return nil, fmt.Errorf("configure the extension apiserver: %w", err)
	}
	return extension.New(completed, backend), nil
}

// waitForEnd returns nil when the context has ended, or why the start has failed or a part has ended before that.
func waitForEnd(ctx context.Context, backend *etcd.Backend, starting *part, parts ...*part) error {
	ended := make(chan error, len(parts))
	for _, p := range parts {
		go func() {
			<-p.done
			ended <- p.died()
		}()
	}
	started := starting.done
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case err := <-backend.Failed():
			return fmt.Errorf("etcd: %w", err)
		case <-started:
			if starting.err != nil {
				return starting.err
			}
			started = nil
		}
	}
}

// ignoreIf keeps one line an error: when a part has died, what the others say while they stop follows from it.
func ignoreIf(died, err error) error {
	if died != nil {
		return nil
	}
	return err
}

// closeUnused closes a listener that no server got to run on; closing one twice does no harm.
func closeUnused(listener net.Listener) { _ = listener.Close() }

// address is where clients on this machine reach the listener.
func address(listener net.Listener) string {
	tcp, ok := listener.Addr().(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return listener.Addr().String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
}

// say tells the user what happens, a line at a time.
func (s *Server) say(format string, values ...any) {
	s.saying.Lock()
	defer s.saying.Unlock()
	_, _ = fmt.Fprintf(s.options.Out, format+"\n", values...)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
