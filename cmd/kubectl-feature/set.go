// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// fieldManager owns what this program wrote.
const fieldManager = "kubectl-feature"

func newEnable(p *program) *cobra.Command {
	return newSet(p, v1alpha1.ValueEnabled, &cobra.Command{
		Use:     "enable NAME",
		Short:   "Wish that a feature is on",
		Example: "  kubectl feature enable NodeBalloonReclaimPolicy -n annex-system --wait",
	})
}

func newDisable(p *program) *cobra.Command {
	return newSet(p, v1alpha1.ValueDisabled, &cobra.Command{
		Use:     "disable NAME",
		Short:   "Wish that a feature is off",
		Example: "  kubectl feature disable NodeBalloonReclaimPolicy -n annex-system --wait",
	})
}

func newUnset(p *program) *cobra.Command {
	return newSet(p, "", &cobra.Command{
		Use:   "unset NAME",
		Short: "Take the wish back, so that the feature follows the command line of its server",
	})
}

func newSet(p *program, value v1alpha1.Value, command *cobra.Command) *cobra.Command {
	command.Args, command.ValidArgsFunction = oneName, p.completeNames
	var follow bool
	var timeout time.Duration
	if value != "" {
		command.Long = command.Short + ", by spec.desired. This is for features whose status.dynamic is true; the server of the others says which flag makes them so."
		command.Flags().BoolVar(&follow, "wait", false, "Show the progress until the feature is what is wished. The exit code is 1 if a task fails or the time is up.")
		command.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "How long to wait; 0 is without limit.")
	}
	o := addOutput(command, false)
	command.RunE = func(command *cobra.Command, args []string) error {
		printer, err := o.printer()
		switch {
		case err != nil:
			return err
		case timeout < 0:
			return fmt.Errorf("--timeout %s is negative; give a time such as 5m, or 0 to wait without limit", timeout)
		case value != "" && command.Flag("timeout").Changed && !follow:
			return errors.New("--timeout needs --wait")
		}
		c, err := p.connect()
		if err != nil {
			return err
		}
		feature, err := c.set(command.Context(), nameOf(args[0]), value)
		if err != nil {
			return err
		}
		progress := p.Out
		if printer == nil {
			_, _ = fmt.Fprintln(p.Out, sentence(feature))
		} else {
			progress = p.ErrOut
		}
		if follow {
			if feature, err = c.follow(command.Context(), feature, value, timeout, progress); err != nil {
				return err
			}
		}
		if printer == nil {
			return nil
		}
		return printer.PrintObj(typed(feature), p.Out)
	}
	return command
}

// follow waits for the wish to come true, at most for the timeout.
func (c *cluster) follow(parent context.Context, feature *v1alpha1.Feature, value v1alpha1.Value, timeout time.Duration, to io.Writer) (*v1alpha1.Feature, error) {
	ctx, cancel := parent, context.CancelFunc(func() {})
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(parent, timeout)
	}
	defer cancel()
	screen := newScreen(to)
	w := newWait(feature, value, screen.show)
	err := c.watch(ctx, w)
	screen.end()
	switch {
	case err == nil:
		return w.last, nil
	case parent.Err() != nil:
		return nil, fmt.Errorf("interrupted; the wish stays, and `kubectl feature unset %s -n %s` takes it back; at last it was: %s", feature.Name, feature.Namespace, progressOf(w.last))
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the time of %s is up; the wish stays; at last it was: %s", timeout, progressOf(w.last))
	}
	return nil, err
}

// set writes the wish, and nothing else. A wish that would be ignored is an error.
func (c *cluster) set(ctx context.Context, name string, value v1alpha1.Value) (*v1alpha1.Feature, error) {
	var desired any // null takes it away
	if value != "" {
		desired = value
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"desired": desired}})
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	feature, err := c.client.FeaturesV1alpha1().Features(c.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, c.explainFor(ctx, name, err)
	}
	if value != "" && !feature.Status.Dynamic {
		return nil, fmt.Errorf("the wish for %s/%s is stored and ignored, because %s", feature.Namespace, feature.Name, whyIgnored(feature))
	}
	return feature, nil
}

// whyIgnored tells why a wish that was made before has no effect now.
func whyIgnored(feature *v1alpha1.Feature) string {
	if feature.Status.Locked {
		return fmt.Sprintf("the feature is locked to its default by now; `kubectl feature unset %s -n %s` takes the wish away", feature.Name, feature.Namespace)
	}
	return fmt.Sprintf("its status.dynamic is false; start the server that owns the feature with --dynamic-features=%s/%s", feature.Namespace, feature.Name)
}

// sentence says what is wished now.
func sentence(feature *v1alpha1.Feature) string {
	name := fmt.Sprintf("feature.%s/%s", v1alpha1.GroupName, feature.Name)
	if feature.Spec.Desired == "" {
		return name + " has no wish set"
	}
	text := fmt.Sprintf("%s is to be %s", name, feature.Spec.Desired)
	if canary := feature.Spec.Canary; canary != nil && feature.Spec.Desired == v1alpha1.ValueEnabled && canary.Percent < 100 {
		text += fmt.Sprintf(", for %d%% of the reporters at first (spec.canary)", canary.Percent)
	}
	return text
}
