// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Service names the Service under which a host reaches the extension apiserver.
type Service struct {
	Namespace, Name string
}

// NewService returns annex-system/annex-apiserver.
func NewService() Service {
	return Service{Namespace: "annex-system", Name: "annex-apiserver"}
}

// AddFlags adds --namespace and --service-name.
func (s *Service) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.Namespace, "namespace", s.Namespace, "Namespace of the extension apiserver's Service and of all else it has in the cluster.")
	fs.StringVar(&s.Name, "service-name", s.Name, "Name of the extension apiserver's Service.")
}

// Validate reports every mistake.
func (s *Service) Validate() []error {
	var errs []error
	for _, problem := range validation.IsDNS1123Label(s.Namespace) {
		errs = append(errs, fmt.Errorf("--namespace %q is not the name of a namespace: %s", s.Namespace, problem))
	}
	for _, problem := range validation.IsDNS1035Label(s.Name) {
		errs = append(errs, fmt.Errorf("--service-name %q is not the name of a service: %s", s.Name, problem))
	}
	return errs
}

// DNSName is the name that the host expects in the serving certificate.
func (s *Service) DNSName() string { return s.Name + "." + s.Namespace + ".svc" }

// AuthoritySecret is the name of the Secret in which the extension apiserver keeps the authorities of its serving certificates.
func (s *Service) AuthoritySecret() string { return s.Name + "-ca" }
