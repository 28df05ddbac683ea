// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kube-annex/annex/cmd/annex/internal/kubeconfig"
	"github.com/kube-annex/annex/server/certificates/pki"
)

func newKubeconfig() *cobra.Command {
	var user kubeconfig.User
	var adminKubeconfig, output string
	command := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Make a kubeconfig for a user, with a client certificate that the cluster signs",
		Long: "Makes a key, asks the cluster for a client certificate with a CertificateSigningRequest, approves it, and prints a kubeconfig with both.\n" +
			"It takes the rights to create CertificateSigningRequests, to update their approval, and the verb approve on the signer\n" +
			"kubernetes.io/kube-apiserver-client. The user may do what roles say that are bound to the name or the groups; nothing is bound here.",
		Example: "  annex kubeconfig --user jane --group developers -o jane.kubeconfig",
		Args:    cobra.NoArgs,
	}
	var sections cliflag.NamedFlagSets
	addKubeconfig(&sections, &adminKubeconfig)
	fs := sections.FlagSet("user")
	fs.StringVar(&user.Name, "user", "", "Name of the user.")
	fs.StringSliceVar(&user.Groups, "group", nil, "Groups of the user. Can be given several times.")
	fs.DurationVar(&user.Expiration, "expiration", 0, "How long the certificate is to be valid, at least 10m. The signer may give less; without it the signer decides.")
	sections.FlagSet("output").StringVarP(&output, "output", "o", "", "File to write, readable by its owner only. Without it the kubeconfig is printed.")
	addSections(command, &sections)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if errs := user.Validate(); errs != nil {
			return errors.Join(errs...)
		}
		config, err := clientConfig(adminKubeconfig)
		if err != nil {
			return err
		}
		content, err := kubeconfig.New(command.Context(), config, user)
		if err != nil {
			return err
		}
		if output == "" {
			_, err = command.OutOrStdout().Write(content)
			return err
		}
		if err := pki.WriteFile(output, content, 0o600); err != nil {
			return fmt.Errorf("write --output: %w", err)
		}
		return nil
	}
	return command
}
