// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/controllers/observer"
	"github.com/kube-annex/annex/server/options"
)

// Groups configure what is led.
type Groups struct {
	// LeaseNamespace is where the Leases are.
	LeaseNamespace string
	// Observer reads the feature gates of components that do not report by themselves.
	Observer *observer.Options
}

// NewGroups returns all groups with their defaults, and Leases in annex-system.
func NewGroups() Groups {
	return Groups{LeaseNamespace: options.NewService().Namespace, Observer: observer.NewOptions()}
}

// AddFlags adds the flags of all controllers.
func (g *Groups) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&g.LeaseNamespace, "leader-elect-namespace", g.LeaseNamespace, "Namespace of the Leases under which controllers run in one process at a time.")
	g.Observer.AddFlags(fs)
}

// Validate reports every mistake.
func (g *Groups) Validate() []error {
	var errs []error
	for _, problem := range validation.IsDNS1123Label(g.LeaseNamespace) {
		errs = append(errs, fmt.Errorf("--leader-elect-namespace %q is not the name of a namespace: %s", g.LeaseNamespace, problem))
	}
	return append(errs, g.Observer.Validate()...)
}

// List returns one group for each Lease.
func (g *Groups) List() []leadership.Group {
	return []leadership.Group{
		{Name: "observer", Lease: g.lease("annex-observer"), New: g.observer},
	}
}

// OwnsLease tells whether a Lease of the name, in the namespace of the Leases, is of a group or of a replica that is a member.
func OwnsLease(name string) bool {
	groups := NewGroups()
	return strings.HasPrefix(name, members+"-") ||
		slices.ContainsFunc(groups.List(), func(g leadership.Group) bool { return g.Lease.Name == name })
}

func (g *Groups) lease(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: g.LeaseNamespace, Name: name}
}

func (g *Groups) observer(term *leadership.Term) ([]leadership.Runner, error) {
	o := *g.Observer
	o.Host = term.Client()
	controller, err := observer.New(o)
	if err != nil {
		return nil, err
	}
	return []leadership.Runner{{Name: "observer", Run: controller.Run}}, nil
}
