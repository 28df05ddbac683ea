// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

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
	// waitingNotice is how often it is said that the host is being waited for.
	waitingNotice = 3 * time.Second
	// trustPatience is how long a caller waits for it.
	trustPatience = 5 * time.Second
)

// hostTrust follows the ConfigMap in which a host publishes whom it believes. Until it has been read nobody is believed.
// One informer reads all of it, so that authorities never take effect before the names that restrict them.
type hostTrust struct {
	client       kubernetes.Interface
	allowAnyName bool

	current atomic.Pointer[trusted]
	// known is closed once it has been read.
	known     chan struct{}
	knownOnce sync.Once

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener
}

func newHostTrust(client kubernetes.Interface, allowAnyName bool) *hostTrust {
	return &hostTrust{client: client, allowAnyName: allowAnyName, known: make(chan struct{})}
}

// before has callers with a certificate wait until it is known whom to trust, for a while. A host that has been there all the time calls
// as soon as the server listens, and takes what it is told then for the state of things.
func (t *hostTrust) before(authenticated authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if t.current.Load() == nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			patience := time.NewTimer(trustPatience)
			defer patience.Stop()
			select {
			case <-t.known:
			case <-patience.C:
			case <-r.Context().Done():
			}
		}
		return authenticated.AuthenticateRequest(r)
	})
}

// trusted is one version of the ConfigMap.
type trusted struct {
	clients, proxies *authorities
	allowedNames     []string

	usernameHeaders, uidHeaders, groupHeaders, extraPrefixes []string

	// problem says why part of it cannot be used.
	problem error
}

type authorities struct {
	pem    []byte
	verify x509.VerifyOptions
}

// Run follows the ConfigMap until the context ends.
func (t *hostTrust) Run(ctx context.Context) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, trustName)
	listWatch := cache.NewListWatchFromClient(t.client.CoreV1().RESTClient(), "configmaps", trustNamespace, selector)
	informer := cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(listWatch, t.client), &corev1.ConfigMap{}, 0)
	// Adding a handler fails only with an informer that has stopped.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { t.observe(ctx, object) },
		UpdateFunc: func(_, object any) { t.observe(ctx, object) },
		// A deleted ConfigMap leaves the last known trust in place: the host makes it again.
	})
	var first sync.WaitGroup
	defer first.Wait()
	first.Go(func() { t.readFirst(ctx) })
	informer.RunWithContext(ctx)
}

// readFirst reads the ConfigMap once. An informer is silent about a host that is away, and comes back to it only after
// half a minute.
func (t *hostTrust) readFirst(ctx context.Context) {
	began := time.Now()
	said := began
	interval := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Steps: 10, Cap: hostRetry}
	for t.current.Load() == nil {
		configMap, err := t.client.CoreV1().ConfigMaps(trustNamespace).Get(ctx, trustName, metav1.GetOptions{})
		if err == nil {
			// The informer may have been faster, and then knows a newer version.
			if next := t.read(ctx, configMap); t.current.CompareAndSwap(nil, next) {
				t.notify()
			}
			return
		}
		if time.Since(said) > waitingNotice {
			said = time.Now()
			klog.FromContext(ctx).Info("Waiting for the host: whom to trust is not known yet", "waited", time.Since(began).Round(time.Second),
				"configMap", klog.KRef(trustNamespace, trustName), "reason", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval.Step()):
		}
	}
}

func (t *hostTrust) observe(ctx context.Context, object any) {
	if configMap, ok := object.(*corev1.ConfigMap); ok {
		t.current.Store(t.read(ctx, configMap))
		t.notify()
	}
}

func (t *hostTrust) read(ctx context.Context, configMap *corev1.ConfigMap) *trusted {
	next := readTrust(configMap.Data, t.allowAnyName)
	if next.problem != nil {
		klog.FromContext(ctx).Error(next.problem, "The host's authentication ConfigMap cannot be used entirely", "configMap", klog.KObj(configMap))
	}
	return next
}

// notify lets the server pick up the current authorities.
func (t *hostTrust) notify() {
	t.knownOnce.Do(func() { close(t.known) })
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, listener := range t.listeners {
		listener.Enqueue()
	}
}

// readTrust takes what it can: users keep their client certificates when the front proxy's part is wrong, and the other way round.
func readTrust(data map[string]string, allowAnyName bool) *trusted {
	result := &trusted{}
	var problems []error
	bundle := func(key string) *authorities {
		read, err := readAuthorities(data[key])
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", key, err))
		}
		return read
	}
	list := func(key string) (values []string) {
		if data[key] == "" {
			return nil
		}
		if err := json.Unmarshal([]byte(data[key]), &values); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", key, err))
		}
		return values
	}
	result.clients = bundle("client-ca-file")
	proxies := bundle("requestheader-client-ca-file")
	result.allowedNames = list("requestheader-allowed-names")
	result.usernameHeaders = list("requestheader-username-headers")
	result.uidHeaders = list("requestheader-uid-headers")
	result.groupHeaders = list("requestheader-group-headers")
	result.extraPrefixes = list("requestheader-extra-headers-prefix")
	switch {
	case proxies == nil:
		// No front proxy is configured on the host.
	case problems != nil:
		// Half-read names or headers must not widen who is believed.
	case len(result.allowedNames) == 0 && !allowAnyName:
		problems = append(problems, errors.New("requestheader-allowed-names is empty, so any certificate of requestheader-client-ca-file could name any user; "+
			"set --requestheader-allowed-names on the host, or --allow-any-requestheader-name here if that is meant"))
	default:
		result.proxies = proxies
	}
	result.problem = utilerrors.NewAggregate(problems)
	return result
}

func readAuthorities(content string) (*authorities, error) {
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

// Check is the readiness of the trust: it is known, and all of it can be used.
func (t *hostTrust) Check(*http.Request) error {
	current := t.current.Load()
	if current == nil {
		return fmt.Errorf("the host's ConfigMap %s/%s has not been read yet", trustNamespace, trustName)
	}
	return current.problem
}

// ClientCAs are the authorities of users' client certificates.
func (t *hostTrust) ClientCAs() dynamiccertificates.CAContentProvider {
	return hostAuthorities{trust: t, name: "client-ca", of: func(current *trusted) *authorities { return current.clients }}
}

// RequestHeader says which front proxies are believed.
func (t *hostTrust) RequestHeader() *authenticatorfactory.RequestHeaderConfig {
	values := func(of func(*trusted) []string) headerrequest.StringSliceProvider {
		return headerrequest.StringSliceProviderFunc(func() []string {
			if current := t.current.Load(); current != nil {
				return of(current)
			}
			return nil
		})
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   hostAuthorities{trust: t, name: "request-header", of: func(current *trusted) *authorities { return current.proxies }},
		AllowedClientNames:  values(func(current *trusted) []string { return current.allowedNames }),
		UsernameHeaders:     values(func(current *trusted) []string { return current.usernameHeaders }),
		UIDHeaders:          values(func(current *trusted) []string { return current.uidHeaders }),
		GroupHeaders:        values(func(current *trusted) []string { return current.groupHeaders }),
		ExtraHeaderPrefixes: values(func(current *trusted) []string { return current.extraPrefixes }),
	}
}

// hostAuthorities is one bundle of the trust as the generic server wants it.
type hostAuthorities struct {
	trust *hostTrust
	name  string
	of    func(*trusted) *authorities
}

func (a hostAuthorities) load() *authorities {
	if current := a.trust.current.Load(); current != nil {
		return a.of(current)
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
