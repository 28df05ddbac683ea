// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

const (
	trustNamespace = metav1.NamespaceSystem
	trustName      = "extension-apiserver-authentication"
	// trustLogInterval is the interval of log messages until the ConfigMap has been read.
	trustLogInterval = 3 * time.Second
	// trustTimeout limits how long a request waits for it.
	trustTimeout = 5 * time.Second
	// maxTrustRetry is the longest interval between attempts to read it.
	maxTrustRetry = 2 * time.Second
)

// HostTrust follows the ConfigMap in which a host publishes the authorities that it trusts. No certificate is trusted until it has been read.
// One informer reads all keys, so that authorities never take effect before the names that restrict them.
//
// The authorities of client certificates and the front proxy are two parts. A part that is invalid leaves its last valid version in place, and
// so does a deleted ConfigMap, as with upstream's controllers: the host writes it again. A part is dropped when the host leaves it out.
type HostTrust struct {
	client       kubernetes.Interface
	allowAnyName bool

	current atomic.Pointer[trustVersion]
	// loaded is closed when current is set.
	loaded     chan struct{}
	loadedOnce sync.Once

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener
}

// NewHostTrust returns a trust that Run fills. With allowAnyName a front proxy without allowed names is valid.
func NewHostTrust(client kubernetes.Interface, allowAnyName bool) *HostTrust {
	return &HostTrust{client: client, allowAnyName: allowAnyName, loaded: make(chan struct{})}
}

// Await delays requests with a client certificate until the ConfigMap has been read, up to a limit. A running host sends requests as soon as
// the server listens, and takes the first response for its state.
func (t *HostTrust) Await(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if t.current.Load() == nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			timeout := time.NewTimer(trustTimeout)
			defer timeout.Stop()
			select {
			case <-t.loaded:
			case <-timeout.C:
			case <-r.Context().Done():
			}
		}
		return next.AuthenticateRequest(r)
	})
}

// trustVersion is one version of both parts of the trust.
type trustVersion struct {
	clients *authorities
	proxies frontProxies

	// clientsErr and proxiesErr are set for a part that is invalid.
	clientsErr, proxiesErr error
}

func (v *trustVersion) err() error {
	return utilerrors.NewAggregate([]error{v.clientsErr, v.proxiesErr})
}

// keepValid replaces invalid parts by those of the last version, if they are valid there.
func (v *trustVersion) keepValid(last *trustVersion) {
	if last == nil {
		return
	}
	if v.clientsErr != nil && last.clientsErr == nil {
		v.clients, v.clientsErr = last.clients, nil
	}
	if v.proxiesErr != nil && last.proxiesErr == nil {
		v.proxies, v.proxiesErr = last.proxies, nil
	}
}

// frontProxies are the authorities of front proxies, with their allowed names and headers.
type frontProxies struct {
	authorities  *authorities // nil if the host has no front proxy
	allowedNames []string

	usernameHeaders, uidHeaders, groupHeaders, extraPrefixes []string
}

type authorities struct {
	pem    []byte
	verify x509.VerifyOptions
}

// Run follows the ConfigMap until the context ends.
func (t *HostTrust) Run(ctx context.Context) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, trustName)
	listWatch := cache.NewListWatchFromClient(t.client.CoreV1().RESTClient(), "configmaps", trustNamespace, selector)
	informer := cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(listWatch, t.client), &corev1.ConfigMap{}, 0)
	// Adding a handler fails only with an informer that has stopped.
	_, _ = informer.AddEventHandler(t.events(ctx))
	var first sync.WaitGroup
	defer first.Wait()
	first.Go(func() { t.readFirst(ctx) })
	informer.RunWithContext(ctx)
}

func (t *HostTrust) events(ctx context.Context) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { t.observe(ctx, object) },
		UpdateFunc: func(_, object any) { t.observe(ctx, object) },
		DeleteFunc: func(any) {
			klog.FromContext(ctx).Info("The host's authentication ConfigMap was deleted; keeping its last version", "configMap", klog.KRef(trustNamespace, trustName))
		},
	}
}

// readFirst reads the ConfigMap once. An informer logs nothing while the host is away, and retries only after half a minute.
func (t *HostTrust) readFirst(ctx context.Context) {
	start := time.Now()
	lastLog := start
	interval := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Steps: 10, Cap: maxTrustRetry}
	for t.current.Load() == nil {
		configMap, err := t.client.CoreV1().ConfigMaps(trustNamespace).Get(ctx, trustName, metav1.GetOptions{})
		if err == nil {
			// The informer may have read a newer version already.
			t.update(ctx, configMap, true)
			return
		}
		if time.Since(lastLog) > trustLogInterval {
			lastLog = time.Now()
			klog.FromContext(ctx).Info("Waiting for the host's authentication ConfigMap", "waited", time.Since(start).Round(time.Second),
				"configMap", klog.KRef(trustNamespace, trustName), "reason", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval.Step()):
		}
	}
}

func (t *HostTrust) observe(ctx context.Context, object any) {
	if configMap, ok := object.(*corev1.ConfigMap); ok {
		t.update(ctx, configMap, false)
	}
}

// update parses the ConfigMap and notifies the listeners. With onlyFirst it does nothing if a version has been read before.
func (t *HostTrust) update(ctx context.Context, configMap *corev1.ConfigMap, onlyFirst bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.current.Load()
	if onlyFirst && last != nil {
		return
	}
	next := parseTrust(configMap.Data, t.allowAnyName)
	if err := next.err(); err != nil {
		klog.FromContext(ctx).Error(err, "Could not use all of the host's authentication ConfigMap; keeping the last valid version of each part", "configMap", klog.KObj(configMap))
	}
	next.keepValid(last)
	t.current.Store(next)
	t.loadedOnce.Do(func() { close(t.loaded) })
	for _, listener := range t.listeners {
		listener.Enqueue()
	}
}

// parseTrust parses both parts; an error in one does not affect the other.
func parseTrust(data map[string]string, allowAnyName bool) *trustVersion {
	v := &trustVersion{}
	if v.clients, v.clientsErr = parseAuthorities(data["client-ca-file"]); v.clientsErr != nil {
		v.clientsErr = fmt.Errorf("client-ca-file: %w", v.clientsErr)
	}
	v.proxies, v.proxiesErr = parseFrontProxies(data, allowAnyName)
	return v
}

// parseFrontProxies fails as a whole: names or headers without the rest must not widen the trust.
func parseFrontProxies(data map[string]string, allowAnyName bool) (frontProxies, error) {
	var errs []error
	list := func(key string) (values []string) {
		if data[key] == "" {
			return nil
		}
		if err := json.Unmarshal([]byte(data[key]), &values); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
		return values
	}
	authorities, err := parseAuthorities(data["requestheader-client-ca-file"])
	if err != nil {
		errs = append(errs, fmt.Errorf("requestheader-client-ca-file: %w", err))
	}
	result := frontProxies{
		authorities:     authorities,
		allowedNames:    list("requestheader-allowed-names"),
		usernameHeaders: list("requestheader-username-headers"),
		uidHeaders:      list("requestheader-uid-headers"),
		groupHeaders:    list("requestheader-group-headers"),
		extraPrefixes:   list("requestheader-extra-headers-prefix"),
	}
	if authorities != nil && errs == nil && len(result.allowedNames) == 0 && !allowAnyName {
		errs = append(errs, errors.New("requestheader-allowed-names is empty, so any certificate of requestheader-client-ca-file could name any user; "+
			"set --requestheader-allowed-names on the host, or --allow-any-requestheader-name here if that is meant"))
	}
	if errs != nil {
		return frontProxies{}, utilerrors.NewAggregate(errs)
	}
	return result, nil
}

func parseAuthorities(content string) (*authorities, error) {
	if content == "" {
		return nil, nil
	}
	certificates, err := certutil.ParseCertsPEM([]byte(content))
	if err != nil {
		return nil, err
	}
	verify := x509request.DefaultVerifyOptions()
	verify.Roots = x509.NewCertPool()
	for _, certificate := range certificates {
		verify.Roots.AddCert(certificate)
	}
	return &authorities{pem: []byte(content), verify: verify}, nil
}

// Check is a readiness check. It fails until the ConfigMap has been read with a valid version of each part.
func (t *HostTrust) Check(*http.Request) error {
	current := t.current.Load()
	if current == nil {
		return fmt.Errorf("the host's ConfigMap %s/%s has not been read yet", trustNamespace, trustName)
	}
	return current.err()
}

// ClientCAs returns the authorities of users' client certificates.
func (t *HostTrust) ClientCAs() dynamiccertificates.CAContentProvider {
	return hostAuthorities{trust: t, name: "client-ca", field: func(v *trustVersion) *authorities { return v.clients }}
}

// RequestHeader returns the configuration of front proxies.
func (t *HostTrust) RequestHeader() *authenticatorfactory.RequestHeaderConfig {
	values := func(field func(*trustVersion) []string) headerrequest.StringSliceProvider {
		return headerrequest.StringSliceProviderFunc(func() []string {
			if current := t.current.Load(); current != nil {
				return field(current)
			}
			return nil
		})
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   hostAuthorities{trust: t, name: "request-header", field: func(v *trustVersion) *authorities { return v.proxies.authorities }},
		AllowedClientNames:  values(func(v *trustVersion) []string { return v.proxies.allowedNames }),
		UsernameHeaders:     values(func(v *trustVersion) []string { return v.proxies.usernameHeaders }),
		UIDHeaders:          values(func(v *trustVersion) []string { return v.proxies.uidHeaders }),
		GroupHeaders:        values(func(v *trustVersion) []string { return v.proxies.groupHeaders }),
		ExtraHeaderPrefixes: values(func(v *trustVersion) []string { return v.proxies.extraPrefixes }),
	}
}

// hostAuthorities provides one CA bundle of the trust.
type hostAuthorities struct {
	trust *HostTrust
	name  string
	field func(*trustVersion) *authorities
}

func (a hostAuthorities) load() *authorities {
	if current := a.trust.current.Load(); current != nil {
		return a.field(current)
	}
	return nil
}

func (a hostAuthorities) Name() string { return a.name }

func (a hostAuthorities) CurrentCABundleContent() []byte {
	if loaded := a.load(); loaded != nil {
		return loaded.pem
	}
	return nil
}

func (a hostAuthorities) VerifyOptions() (x509.VerifyOptions, bool) {
	if loaded := a.load(); loaded != nil {
		return loaded.verify, true
	}
	return x509.VerifyOptions{}, false
}

func (a hostAuthorities) AddListener(listener dynamiccertificates.Listener) {
	a.trust.mu.Lock()
	defer a.trust.mu.Unlock()
	a.trust.listeners = append(a.trust.listeners, listener)
}
