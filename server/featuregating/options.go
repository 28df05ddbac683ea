// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/featuregate/lifecycle"
)

const (
	dynamicFlag       = "dynamic-features"
	featuresFlag      = "features"
	retentionFlag     = "feature-retention"
	taskQPSFlag       = "task-qps"
	allowDataLossFlag = "allow-data-loss"
	answerWindowFlag  = "feature-answer-window"
)

// Options configures the lifecycle of features.
type Options struct {
	// Dynamic lists the features that API clients may set, each as namespace/Name, or namespace/* for all of a namespace.
	Dynamic []string
	// Features sets features of components without a server of their own, each as namespace/Name=true or namespace/Name=false.
	Features []string
	// Retention is for how many minor versions a Feature is kept that no replica knows any more.
	Retention int
	// TaskQPS is how many requests a second all tasks of this process make; 0 sets no limit.
	TaskQPS int
	// AllowDataLoss lets tasks delete whole collections.
	AllowDataLoss bool
	// AnswerWindow is how long reporters have at least to say what they use.
	AnswerWindow time.Duration

	// Tasks adds to the tasks that the gates have by what they gate; nil adds none. It is set in code.
	Tasks map[featuregate.Feature]Tasks
	// Timings are for tests; AnswerWindow and WriteGrace of them do not count.
	Timings lifecycle.Timings
}

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{Retention: lifecycle.DefaultRetention, TaskQPS: 200, AnswerWindow: time.Minute}
}

// AddFlags adds all flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Dynamic, dynamicFlag, o.Dynamic, "Features that API clients may turn on and off while the server runs, by spec.desired of the Feature; "+
		"as namespace/Name, or namespace/* for all, separated by commas. Annex's own are in annex-system; those of other namespaces need a value by --"+featuresFlag+" as well.")
	fs.StringSliceVar(&o.Features, featuresFlag, o.Features, "Features of components without a server of their own to turn on or off, as namespace/Name=true or namespace/Name=false, "+
		"separated by commas. Components that read them from the API follow. A Feature that annex observes (source Observed) is left as it is.")
	fs.IntVar(&o.Retention, retentionFlag, o.Retention, "For how many minor versions of the server a Feature is kept after its feature gate is gone.")
	fs.IntVar(&o.TaskQPS, taskQPSFlag, o.TaskQPS, "How many requests a second the server makes at most to clean up after features that are turned off; 0 for no limit.")
	fs.BoolVar(&o.AllowDataLoss, allowDataLossFlag, o.AllowDataLoss,
		"Let features delete all objects of a kind whose schema does not fit another version of the server. Without it they wait until the objects are gone.")
	fs.DurationVar(&o.AnswerWindow, answerWindowFlag, o.AnswerWindow, "How long components have at least to answer whether they still use a feature that is turned off.")
}

// Validate reports every mistake. The gates are Annex's own.
func (o *Options) Validate(gates featuregate.MutableVersionedFeatureGate) []error {
	_, errs := o.read(gates)
	if o.Retention < 1 {
		errs = append(errs, fmt.Errorf("--%s %d is too few; choose at least 1", retentionFlag, o.Retention))
	}
	if o.TaskQPS < 0 {
		errs = append(errs, fmt.Errorf("--%s %d is negative; choose 0 for no limit, or more", taskQPSFlag, o.TaskQPS))
	}
	if o.AnswerWindow <= 0 {
		errs = append(errs, fmt.Errorf("--%s %s is too short; choose more than 0s", answerWindowFlag, o.AnswerWindow))
	}
	return errs
}

// Namespaces returns those of the features that the flags name, besides Annex's own. The options must be valid.
func (o *Options) Namespaces(gates featuregate.MutableVersionedFeatureGate) []string {
	wanted, _ := o.read(gates)
	return wanted.namespaces()
}
