// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterid

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Source is where the cluster's id comes from.
type Source string

const (
	// SourceKubeSystemUID takes the uid of the namespace kube-system, which is unique and lives as long as the cluster.
	SourceKubeSystemUID Source = "KubeSystemUID"
	// SourceLiteral takes what the administrator says.
	SourceLiteral Source = "Literal"
	// SourceNone leaves the id to others.
	SourceNone Source = "None"
)

// Options configure the provisioning of the id. NewOptions has the defaults; Host is for the caller to set.
type Options struct {
	// Host reaches the API that has the claims.
	Host *rest.Config
	// Source is where the id comes from, and ID what it is if the source is Literal.
	Source Source
	ID     string
	// Clock is for tests; nil means the real one.
	Clock clock.Clock
}

// NewOptions returns the defaults.
func NewOptions() *Options { return &Options{Source: SourceKubeSystemUID} }

// AddFlags adds the flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar((*string)(&o.Source), "cluster-id-source", string(o.Source),
		"Where the cluster's id comes from, the ClusterClaim id.k8s.io, while nobody has created that claim: KubeSystemUID for the uid of the namespace "+
			"kube-system, Literal for what --cluster-id says, None to leave it to others.")
	fs.StringVar(&o.ID, "cluster-id", o.ID, "The cluster's id, a DNS-1123 label such as cluster-1, with --cluster-id-source=Literal.")
}

// Enabled tells whether there is anything to do.
func (o *Options) Enabled() bool { return o.Source != SourceNone }

// Validate reports every mistake.
func (o *Options) Validate() []error {
	switch o.Source {
	case SourceLiteral:
		if o.ID == "" {
			return []error{errors.New("--cluster-id-source is Literal and --cluster-id is empty; give the cluster's id with --cluster-id")}
		}
		if problems := validation.IsDNS1123Label(o.ID); len(problems) > 0 {
			return []error{fmt.Errorf("--cluster-id %q is not a cluster id: %s", o.ID, strings.Join(problems, "; "))}
		}
		return nil
	case SourceKubeSystemUID, SourceNone:
		if o.ID != "" {
			return []error{fmt.Errorf("--cluster-id is set, which does nothing with --cluster-id-source=%s; set --cluster-id-source=Literal, or remove --cluster-id", o.Source)}
		}
		return nil
	}
	return []error{fmt.Errorf("--cluster-id-source %q is none of KubeSystemUID, Literal and None; choose one", o.Source)}
}
