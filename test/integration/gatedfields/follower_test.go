// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gatedfields_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

// TestFollower follows a Feature through its life, and what is published with it.
func TestFollower(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Options{Own: map[string]bool{color: true}})
	w := whole{Server: s}
	clients, err := versioned.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name   string
		change func()
		want   resource.Permission
	}{
		{"no feature", func() {}, resource.Permitted},
		{"off", func() { setState(t, s, color, off) }, resource.Off},
		{"preparing", func() { setState(t, s, color, turningOn, "InstallCRD", "WaitForUses") }, resource.Off},
		{"waiting", func() { setState(t, s, color, turningOn, "WaitForUses") }, resource.Permitted},
		{"turning off", func() { setState(t, s, color, turningOff, "WaitForUses") }, resource.TurningOff},
		{"turned round", func() { setState(t, s, color, on) }, resource.Permitted},
		{"no state", func() { setState(t, s, color, "") }, resource.Permitted},
		{"off again", func() { setState(t, s, color, off) }, resource.Off},
		{"deleted", func() {
			if err := clients.FeaturesV1alpha1().Features(server.Namespace).Delete(t.Context(), color, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, resource.Permitted},
	} {
		step.change()
		poll.Eventually(t, waitForAnswers, step.name, func(context.Context) error {
			if got := s.Follower.Permission(color); got != step.want {
				return errors.New("the follower says " + string(got) + ", want " + string(step.want))
			}
			const document = "/openapi/v3/apis/example.annex.test/v1alpha1"
			_, body := w.get(t, document, "application/json")
			if got := strings.Contains(body, `"color"`); got != (step.want == resource.Permitted) {
				return errors.New("the field is published when it should not be, or the other way round")
			}
			return nil
		})
	}
}
