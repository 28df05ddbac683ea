// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubeadmission "k8s.io/apiserver/pkg/admission"
)

// asking is a plugin that notes for what it was asked, and refuses all.
type asking struct {
	*kubeadmission.Handler
	admitted, validated int
}

var errRefused = errors.New("refused")

func (a *asking) Admit(context.Context, kubeadmission.Attributes, kubeadmission.ObjectInterfaces) error {
	a.admitted++
	return errRefused
}

func (a *asking) Validate(context.Context, kubeadmission.Attributes, kubeadmission.ObjectInterfaces) error {
	a.validated++
	return errRefused
}

// TestAPluginActsFromTheTimeWhenThereIsSomethingToDo asks the place of a plugin in the chain for both of its parts.
func TestAPluginActsFromTheTimeWhenThereIsSomethingToDo(t *testing.T) {
	t.Parallel()
	secrets, reviews := corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("subjectaccessreviews")
	reviews.Group = "authorization.k8s.io"
	create := func(ctx context.Context, c *lazyPlugin, review bool) (admit, validate error) {
		resource := secrets
		if review {
			resource = reviews
		}
		request := kubeadmission.NewAttributesRecord(&corev1.Secret{}, nil, resource.GroupVersion().WithKind("X"), "ns", "x", resource, "", kubeadmission.Create, nil, false, nil)
		return mutating{c}.Admit(ctx, request, nil), validating{c}.Validate(ctx, request, nil)
	}
	c, plugin := newLazyPlugin(definition{name: "x", kinds: []string{"configurations"}, exempt: exemptFromPolicies}), &asking{}
	check := func(when string, admit, validate error, want func(error) bool, asked int) {
		t.Helper()
		if !want(admit) || !want(validate) || plugin.admitted != asked || plugin.validated != asked {
			t.Errorf("%s: got %v, %v; the plugin was asked to admit %d times, to validate %d times; want %d", when, admit, validate, plugin.admitted, plugin.validated, asked)
		}
	}
	passes := func(err error) bool { return err == nil }
	refuses := func(err error) bool { return errors.Is(err, errRefused) }
	gone, cancel := context.WithCancel(t.Context())
	cancel()

	admit, validate := create(gone, c, false)
	check("before anything is known", admit, validate, apierrors.IsServiceUnavailable, 0)
	if c.pending() == nil {
		t.Error("the configurations are known")
	}
	admit, validate = create(gone, c, true)
	check("before anything is known, a review", admit, validate, passes, 0)
	c.set(nil)
	admit, validate = create(t.Context(), c, false)
	check("with nothing to do", admit, validate, passes, 0)
	c.set(plugin)
	admit, validate = create(t.Context(), c, true)
	check("with something to do, a review", admit, validate, passes, 0)
	admit, validate = create(t.Context(), c, false)
	check("with something to do", admit, validate, refuses, 1)
	c.set(nil)
	admit, validate = create(t.Context(), c, false)
	check("with nothing to do again", admit, validate, passes, 1)
	c.set(failingPlugin{plugin.Handler, errRefused})
	admit, validate = create(t.Context(), c, false)
	check("where the plugin cannot be made", admit, validate, refuses, 1)
	if err := c.pending(); err != nil {
		t.Error(err)
	}
}
