// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/controllers/restconfig"
	"github.com/kube-annex/annex/generated/clientset/versioned"
)

// cluster is the cluster and the namespace that the flags and the kubeconfig name.
type cluster struct {
	client *versioned.Clientset
	// namespace is the one to work in, and given tells that a flag names it.
	namespace string
	given     bool
}

func (p *program) connect() (*cluster, error) {
	loader := p.flags.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w; set --kubeconfig or KUBECONFIG to a complete file", err)
	}
	if len(raw.Clusters) == 0 && *p.flags.APIServer == "" {
		if _, outside := rest.InClusterConfig(); outside != nil {
			return nil, errors.New("no cluster is configured; set --kubeconfig or KUBECONFIG to a kubeconfig file")
		}
	}
	config, err := p.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w; set --kubeconfig or KUBECONFIG to a complete file", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the namespace from the kubeconfig: %w", err)
	}
	restconfig.RejectRedirects(config)
	config.WarningHandler = rest.NewWarningWriter(p.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	return &cluster{client: client, namespace: namespace, given: *p.flags.Namespace != ""}, nil
}

// list returns the Features of a namespace, or of all namespaces when it is empty.
func (c *cluster) list(ctx context.Context, namespace string) (*v1alpha1.FeatureList, error) {
	list, err := c.client.FeaturesV1alpha1().Features(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.explain(err)
	}
	return list, nil
}

func (c *cluster) get(ctx context.Context, name string) (*v1alpha1.Feature, error) {
	feature, err := c.client.FeaturesV1alpha1().Features(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, c.explainFor(ctx, name, err)
	}
	return feature, nil
}

// explain tells an API that is not there from other errors.
func (c *cluster) explain(err error) error {
	gv := v1alpha1.SchemeGroupVersion.String()
	switch {
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%s does not answer: %w; `kubectl describe apiservice %s.%s` says why", gv, err, v1alpha1.SchemeGroupVersion.Version, v1alpha1.GroupName)
	case apierrors.IsNotFound(err):
		if _, missing := c.client.Discovery().ServerResourcesForGroupVersion(gv); apierrors.IsNotFound(missing) {
			return fmt.Errorf("this cluster does not serve %s; register Annex with it (`annex register`), or choose another cluster with --context or --kubeconfig", gv)
		}
	}
	return err
}

// explainFor is explain for a request about one Feature: one that is not found may have another name or namespace.
func (c *cluster) explainFor(ctx context.Context, name string, err error) error {
	if explained := c.explain(err); !apierrors.IsNotFound(explained) {
		return explained
	}
	message := fmt.Sprintf("there is no feature %q in the namespace %s", name, c.namespace)
	// Hints are as good as the rights of the user.
	everywhere, listErr := c.list(ctx, metav1.NamespaceAll)
	if listErr != nil {
		if everywhere, listErr = c.list(ctx, c.namespace); listErr != nil {
			return errors.New(message)
		}
	}
	var here, elsewhere []string
	for _, feature := range everywhere.Items {
		switch {
		case feature.Namespace == c.namespace:
			here = append(here, feature.Name)
		case strings.EqualFold(feature.Name, name):
			elsewhere = append(elsewhere, fmt.Sprintf("%s -n %s", feature.Name, feature.Namespace))
		}
	}
	if near := similar(name, here); len(near) > 0 {
		message += "; did you mean " + strings.Join(near, " or ") + "?"
	} else if len(elsewhere) > 0 {
		message += "; did you mean " + strings.Join(elsewhere, " or ") + "?"
	}
	return errors.New(message + " `kubectl feature list -A` lists the features of all namespaces")
}

// nameOf accepts what -o name prints besides the bare name.
func nameOf(argument string) string {
	resource, name, found := strings.Cut(argument, "/")
	if !found {
		return argument
	}
	switch kind, group, grouped := strings.Cut(strings.ToLower(resource), "."); kind {
	case "feature", "features", "feat":
		if !grouped || group == v1alpha1.GroupName {
			return name
		}
	}
	return argument
}

// completeNames offers the names of the namespace's Features to the shell.
func (p *program) completeNames(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := p.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := c.list(command.Context(), c.namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, feature := range list.Items {
		names = append(names, feature.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
