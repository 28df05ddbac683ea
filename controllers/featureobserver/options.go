// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

const (
	// DefaultNamespace is where the features of Kubernetes itself are.
	DefaultNamespace = "kube-system"
	// DefaultInterval is how often components are read; a restart with other gates shows within twice that.
	DefaultInterval = 30 * time.Second

	minInterval = time.Second
)

// Options configure an observer. NewOptions has the defaults; Host is for the caller to set.
type Options struct {
	// Host reaches the API that has the Features, whose /metrics is read as that of kube-apiserver.
	Host *rest.Config
	// Namespace is where the Features are; empty means DefaultNamespace.
	Namespace string
	// Interval is how often components are read, kubelets every tenth time; 0 means DefaultInterval.
	Interval time.Duration
	// Endpoints are the pages of components that are not read through the API.
	Endpoints []Endpoint
	// Kubelets has every node's kubelet read, at its own port.
	Kubelets bool
	// KubeletCAFile and KubeletInsecure tell how kubelets are known, as those of an Endpoint.
	KubeletCAFile   string
	KubeletInsecure bool
	// Kubeconfig is a file with the identity that is shown to Endpoints and kubelets; empty means Identity.
	Kubeconfig string
	// Identity is for callers whose Host has a transport of its own, with which nobody else can be reached; nil means that of Host.
	Identity *rest.Config
	// Clock is for tests; nil means the real one.
	Clock clock.Clock
}

// Endpoint is the page with the metrics of one instance of a component.
type Endpoint struct {
	// Component is the name of the component, such as kube-scheduler.
	Component string
	// URL is where the page is: https, with a path that ends with /metrics.
	URL string
	// CAFile has the authorities that may have signed the server's certificate; empty means those of the identity that is shown.
	CAFile string
	// Insecure has the server believed without a certificate. A bearer token goes to whoever answers.
	Insecure bool
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{Namespace: DefaultNamespace, Interval: DefaultInterval}
}

// AddFlags adds the flags of an observer.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.Interval, "observe-interval", o.Interval,
		"How often the feature gates of Kubernetes' components are read. Kubelets are read every tenth time.")
	fs.Var((*endpointFlag)(&o.Endpoints), "observe-endpoint",
		"A page with metrics to read feature gates from, as COMPONENT=https://HOST:PORT/metrics, such as kube-scheduler=https://10.0.0.1:10259/metrics; "+
			"may be repeated. Append ,ca-file=FILE if the server's certificate is not signed by the cluster's authority, or ,insecure to believe it "+
			"without one. Endpoints of kube-apiserver are read in place of its page behind the API.")
	fs.BoolVar(&o.Kubelets, "observe-kubelets", o.Kubelets,
		"Read the feature gates of every kubelet at its own port, which takes the right to get nodes/metrics.")
	fs.StringVar(&o.KubeletCAFile, "observe-kubelet-ca-file", o.KubeletCAFile,
		"File with the authorities that have signed the kubelets' serving certificates. Default is the cluster's authority.")
	fs.BoolVar(&o.KubeletInsecure, "observe-kubelet-insecure", o.KubeletInsecure,
		"Believe kubelets without a certificate. A bearer token then goes to whoever answers at a node's address: give one that can do nothing else with --observe-kubeconfig.")
	fs.StringVar(&o.Kubeconfig, "observe-kubeconfig", o.Kubeconfig,
		"File with the identity that is shown to endpoints and kubelets. Default is the identity that is shown to the API.")
}

// Validate reports every mistake.
func (o *Options) Validate() []error {
	var errs []error
	if o.Interval != 0 && o.Interval < minInterval {
		errs = append(errs, fmt.Errorf("--observe-interval is %s; set at least %s", o.Interval, minInterval))
	}
	seen := map[Endpoint]bool{}
	for _, endpoint := range o.Endpoints {
		errs = append(errs, endpoint.validate()...)
		same := Endpoint{Component: endpoint.Component, URL: endpoint.URL}
		if seen[same] {
			errs = append(errs, fmt.Errorf("--observe-endpoint %s=%s is given twice; remove one", endpoint.Component, endpoint.URL))
		}
		seen[same] = true
	}
	errs = append(errs, validateTrust("--observe-kubelet-ca-file", "--observe-kubelet-insecure", o.KubeletCAFile, o.KubeletInsecure)...)
	if !o.Kubelets && (o.KubeletCAFile != "" || o.KubeletInsecure) {
		errs = append(errs, errors.New("--observe-kubelet-ca-file and --observe-kubelet-insecure do nothing without --observe-kubelets; set it, or remove them"))
	}
	if o.Kubeconfig != "" {
		if _, err := o.identity(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (e Endpoint) validate() []error {
	flag := fmt.Sprintf("--observe-endpoint %s=%s", e.Component, e.URL)
	var errs []error
	if problems := validation.IsDNS1123Label(e.Component); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("%s: the component %q %s", flag, e.Component, strings.Join(problems, "; ")))
	}
	page, err := url.Parse(e.URL)
	if err != nil || page.Scheme != "https" || page.Host == "" || page.User != nil || page.RawQuery != "" || page.Fragment != "" || !strings.HasSuffix(page.Path, metricsPath) {
		errs = append(errs, fmt.Errorf("%s: %q is not the address of a page with metrics; give it as https://HOST:PORT/metrics", flag, e.URL))
	}
	if len(e.URL) > maxReporterLength {
		errs = append(errs, fmt.Errorf("%s: the address has %d characters; use one of at most %d", flag, len(e.URL), maxReporterLength))
	}
	return append(errs, validateTrust(flag+",ca-file", "insecure", e.CAFile, e.Insecure)...)
}

func validateTrust(fileFlag, insecureFlag, caFile string, insecure bool) []error {
	if caFile == "" {
		return nil
	}
	if insecure {
		return []error{fmt.Errorf("%s and %s contradict each other; remove one", fileFlag, insecureFlag)}
	}
	if _, err := os.Stat(caFile); err != nil {
		return []error{fmt.Errorf("%s: %w", fileFlag, err)}
	}
	return nil
}

// identity is what endpoints and kubelets get to see.
func (o *Options) identity() (*rest.Config, error) {
	switch {
	case o.Kubeconfig != "":
	case o.Identity != nil:
		return rest.CopyConfig(o.Identity), nil
	default:
		return rest.CopyConfig(o.Host), nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--observe-kubeconfig: %w", err)
	}
	return config, nil
}

// endpointFlag reads what --observe-endpoint says; Validate judges it.
type endpointFlag []Endpoint

// Set implements pflag.Value.
func (f *endpointFlag) Set(text string) error {
	fields := strings.Split(text, ",")
	component, address, found := strings.Cut(fields[0], "=")
	if !found {
		return errors.New("give it as COMPONENT=https://HOST:PORT/metrics")
	}
	endpoint := Endpoint{Component: component, URL: address}
	for _, field := range fields[1:] {
		switch file, isFile := strings.CutPrefix(field, "ca-file="); {
		case isFile && file != "":
			endpoint.CAFile = file
		case field == "insecure":
			endpoint.Insecure = true
		default:
			return fmt.Errorf("%q is neither ca-file=FILE nor insecure", field)
		}
	}
	*f = append(*f, endpoint)
	return nil
}

// Type implements pflag.Value.
func (f *endpointFlag) Type() string { return "endpoint" }

// String implements pflag.Value.
func (f *endpointFlag) String() string {
	var all []string
	for _, endpoint := range *f {
		all = append(all, endpoint.Component+"="+endpoint.URL)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
