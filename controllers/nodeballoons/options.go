// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Mode is what becomes of balloons.
type Mode string

// Modes.
const (
	// Off leaves everything as it is.
	Off Mode = "Off"
	// On keeps a balloon on each node, and as large as its NodeBalloon says.
	On Mode = "On"
	// Remove deflates all balloons and removes them, which restores the size of every node.
	Remove Mode = "Remove"
)

// Options configure the controller. NewOptions has the defaults; Host is for the caller to set.
type Options struct {
	// Host reaches the API that has the nodes and the NodeBalloons.
	Host *rest.Config
	// Mode is what becomes of balloons.
	Mode Mode
	// Image is what the pods of a DaemonSet run that the controller makes; empty means that it makes none.
	Image string
	// StartupTaint keeps pods off nodes whose balloons do not hold yet what they should; empty means that nothing does.
	StartupTaint string
	// Metrics tell how large the nodes are; nil means that nobody is told.
	Metrics *Metrics
	// Clock is for tests; nil means the real one.
	Clock clock.WithTicker
}

// NewOptions returns the defaults: nothing is done.
func NewOptions() *Options { return &Options{Mode: Off} }

// AddFlags adds the flags of the controller.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar((*string)(&o.Mode), "node-balloons", string(o.Mode),
		"On keeps a balloon pod on each node and resizes it as the node's NodeBalloon says. Off leaves everything as it is. "+
			"Remove deflates and removes all balloons, which restores the size of every node.")
	fs.StringVar(&o.Image, "node-balloon-image", o.Image,
		"Image of a program that does nothing, such as the pause image of the nodes, for a DaemonSet of balloons that the controller makes where there is none. "+
			"Without it somebody else has to, for example with artifacts/deploy/balloons.")
	fs.StringVar(&o.StartupTaint, "startup-taint", o.StartupTaint,
		"Taint, as KEY[=VALUE]:NoSchedule, that keeps pods off a node while its balloon does not hold yet what it should. "+
			"Give the same to the kubelets with --register-with-taints, for nodes that are new.")
}

// Validate reports every mistake.
func (o *Options) Validate() []error {
	var errs []error
	switch o.Mode {
	case Off, On, Remove:
	default:
		errs = append(errs, fmt.Errorf("--node-balloons is %q; set it to Off, On or Remove", o.Mode))
	}
	if o.StartupTaint != "" {
		if _, err := parseTaint(o.StartupTaint); err != nil {
			errs = append(errs, fmt.Errorf("--startup-taint: %w", err))
		}
	}
	if strings.ContainsAny(o.Image, " \t\n") {
		errs = append(errs, fmt.Errorf("--node-balloon-image is %q; give the name of one image", o.Image))
	}
	return errs
}

func (o *Options) complete() (*corev1.Taint, error) {
	if o.Host == nil {
		return nil, errors.New("make the controller of NodeBalloons: options have no Host")
	}
	if errs := o.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.StartupTaint == "" {
		return nil, nil
	}
	return parseTaint(o.StartupTaint)
}
