// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"

	"github.com/spf13/pflag"

	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// Audit says what is written to the audit log and where it goes. The flags are those of a kube-apiserver.
type Audit struct {
	options *genericoptions.AuditOptions
}

// NewAudit returns options that audit nothing.
func NewAudit() Audit {
	return Audit{options: genericoptions.NewAuditOptions()}
}

// AddFlags adds the audit flags of a kube-apiserver.
func (a *Audit) AddFlags(fs *pflag.FlagSet) { a.options.AddFlags(fs) }

// Validate reports every mistake.
func (a *Audit) Validate() []error {
	if a.options == nil {
		return nil
	}
	errs := a.options.Validate()
	output := a.options.LogOptions.Path != "" || a.options.WebhookOptions.ConfigFile != ""
	switch {
	case output && a.options.PolicyFile == "":
		// The library would write nothing and say so only at a high verbosity.
		errs = append(errs, fmt.Errorf("an audit output is set without a policy, so nothing would be written; set --audit-policy-file"))
	case !output && a.options.PolicyFile != "":
		errs = append(errs, fmt.Errorf("--audit-policy-file is set without an output; set --audit-log-path or --audit-webhook-config-file"))
	}
	return errs
}

// ApplyTo sets the audit policy and backends.
func (a *Audit) ApplyTo(config *genericapiserver.Config) error {
	if a.options == nil {
		return nil
	}
	if err := a.options.ApplyTo(config); err != nil {
		return fmt.Errorf("set up auditing: %w", err)
	}
	return nil
}
