// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

const (
	id  = v1alpha1.ClaimID
	set = v1alpha1.ClaimClusterSet
)

// valueWrites are the ways to change the value of an existing claim.
var valueWrites = map[string]func(ctx context.Context, c *clients, name, value string) error{
	"PUT": func(ctx context.Context, c *clients, name, value string) error {
		current, err := c.resource("clusterclaims").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Object["spec"] = map[string]any{"value": value}
		_, err = c.resource("clusterclaims").Update(ctx, current, metav1.UpdateOptions{})
		return err
	},
	"merge patch": func(ctx context.Context, c *clients, name, value string) error {
		_, err := c.resource("clusterclaims").Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"value":%q}}`, value), metav1.PatchOptions{})
		return err
	},
	"strategic merge patch": func(ctx context.Context, c *clients, name, value string) error {
		_, err := c.resource("clusterclaims").Patch(ctx, name, types.StrategicMergePatchType, fmt.Appendf(nil, `{"spec":{"value":%q}}`, value), metav1.PatchOptions{})
		return err
	},
	"JSON patch": func(ctx context.Context, c *clients, name, value string) error {
		_, err := c.resource("clusterclaims").Patch(ctx, name, types.JSONPatchType, fmt.Appendf(nil, `[{"op":"replace","path":"/spec/value","value":%q}]`, value), metav1.PatchOptions{})
		return err
	},
	"forced apply": func(ctx context.Context, c *clients, name, value string) error {
		_, err := c.resource("clusterclaims").Apply(ctx, name, c.claim(name, value), metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err
	},
	"dry-run PUT": func(ctx context.Context, c *clients, name, value string) error {
		current, err := c.resource("clusterclaims").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Object["spec"] = map[string]any{"value": value}
		_, err = c.resource("clusterclaims").Update(ctx, current, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	},
}

// creations are the ways to make a claim that does not exist.
var creations = map[string]func(ctx context.Context, c *clients, name, value string) error{
	"create": func(ctx context.Context, c *clients, name, value string) error {
		_, err := c.resource("clusterclaims").Create(ctx, c.claim(name, value), metav1.CreateOptions{})
		return err
	},
	"dry-run create": func(ctx context.Context, c *clients, name, value string) error {
		_, err := c.resource("clusterclaims").Create(ctx, c.claim(name, value), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	},
	"create on apply": func(ctx context.Context, c *clients, name, value string) error {
		_, err := c.resource("clusterclaims").Apply(ctx, name, c.claim(name, value), metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err
	},
}

// deletions are the ways to delete a claim.
var deletions = map[string]func(ctx context.Context, c *clients, name string) error{
	"delete": func(ctx context.Context, c *clients, name string) error {
		return c.resource("clusterclaims").Delete(ctx, name, metav1.DeleteOptions{})
	},
	"dry-run delete": func(ctx context.Context, c *clients, name string) error {
		return c.resource("clusterclaims").Delete(ctx, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	},
	"foreground delete": func(ctx context.Context, c *clients, name string) error {
		foreground := metav1.DeletePropagationForeground
		return c.resource("clusterclaims").Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground})
	},
	"deletecollection": func(ctx context.Context, c *clients, name string) error {
		return c.resource("clusterclaims").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	},
}

func TestSetNeedsAnID(t *testing.T) {
	t.Parallel()
	for name, join := range creations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := claimsOn(t, resourcetest.Start(t, options()))
			wantInvalid(t, join(t.Context(), c, set, "fleet"), "metadata.name", "create the ClusterClaim id.k8s.io first")

			held := c.claim(id, "one")
			held.SetFinalizers([]string{"annex.test/hold"})
			c.mustCreate(t, "clusterclaims", held)
			if err := c.delete(t, id); err != nil {
				t.Fatal(err)
			}
			wantInvalid(t, join(t.Context(), c, set, "fleet"), "metadata.name", "is being deleted")
			c.release(t, id)

			c.mustCreate(t, "clusterclaims", c.claim(id, "one"))
			if err := join(t.Context(), c, set, "fleet"); err != nil {
				t.Errorf("joining with an id: %v", err)
			}
		})
	}
	t.Run("PUT of what does not exist", func(t *testing.T) {
		t.Parallel()
		c := claimsOn(t, resourcetest.Start(t, options()))
		absent := c.claim(set, "fleet")
		absent.SetResourceVersion("1")
		if err := c.update(t, "clusterclaims", absent); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			t.Errorf("got %v, want NotFound or Conflict", err)
		}
	})
}

func TestIDIsFixedInASet(t *testing.T) {
	t.Parallel()
	for state, leave := range map[string]func(t *testing.T, c *clients){
		"member": func(*testing.T, *clients) {},
		// A set claim that only waits for a finalizer still counts.
		"leaving": func(t *testing.T, c *clients) {
			if err := c.delete(t, set); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			c := claimsOn(t, resourcetest.Start(t, options()))
			c.mustCreate(t, "clusterclaims", c.claim(id, "one"))
			joined := c.claim(set, "fleet")
			joined.SetFinalizers([]string{"annex.test/hold"})
			c.mustCreate(t, "clusterclaims", joined)
			leave(t, c)

			for name, write := range valueWrites {
				t.Run(name, func(t *testing.T) {
					wantInvalid(t, write(t.Context(), c, id, "two"), "spec.value", "leave the set first")
				})
			}
			for name, remove := range deletions {
				t.Run(name, func(t *testing.T) {
					if err := remove(t.Context(), c, id); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "leave the set first") {
						t.Errorf("got %v, want 403 that says to leave the set first", err)
					}
				})
			}
			t.Run("through /status", func(t *testing.T) {
				current := c.get(t, id)
				current.Object["spec"] = map[string]any{"value": "two"}
				out, err := c.resource("clusterclaims").UpdateStatus(t.Context(), current, metav1.UpdateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := nested(out, "spec", "value"); got != "one" {
					t.Errorf("/status changed the id to %q", got)
				}
			})
			t.Run("metadata stays editable", func(t *testing.T) {
				if _, err := c.resource("clusterclaims").Patch(t.Context(), id, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
			})
			if got := nested(c.get(t, id), "spec", "value"); got != "one" {
				t.Errorf("the id is %q after all attempts", got)
			}
		})
	}
}

func TestSetValueIsImmutable(t *testing.T) {
	t.Parallel()
	c := claimsOn(t, resourcetest.Start(t, options()))
	c.mustCreate(t, "clusterclaims", c.claim(id, "one"))
	c.mustCreate(t, "clusterclaims", c.claim(set, "fleet"))
	for name, write := range valueWrites {
		t.Run(name, func(t *testing.T) {
			wantInvalid(t, write(t.Context(), c, set, "other"), "spec.value", "")
		})
	}
}

func TestIDIsFreeOutsideASet(t *testing.T) {
	t.Parallel()
	c := claimsOn(t, resourcetest.Start(t, options()))
	c.mustCreate(t, "clusterclaims", c.claim(id, "zero"))
	for round := range 50 {
		c.mustCreate(t, "clusterclaims", c.claim(set, "fleet"))
		if err := c.delete(t, set); err != nil {
			t.Fatal(err)
		}
		c.takeWarnings()
		// The very next request after leaving: no stale window.
		if err := valueWrites["merge patch"](t.Context(), c, id, fmt.Sprintf("id-%d", round)); err != nil {
			t.Fatalf("round %d: changing the id after leaving the set: %v", round, err)
		}
		if warnings := c.takeWarnings(); len(warnings) != 1 || !strings.Contains(warnings[0], "as long as the cluster") {
			t.Fatalf("round %d: warnings %q, want one about the id's lifespan", round, warnings)
		}
	}
	if err := c.delete(t, id); err != nil {
		t.Fatal(err)
	}
	if warnings := c.takeWarnings(); len(warnings) != 1 {
		t.Errorf("deleting the id gave warnings %q, want one", warnings)
	}
}

func TestDeleteCollectionTakesSetBeforeID(t *testing.T) {
	t.Parallel()
	c := claimsOn(t, resourcetest.Start(t, options()))
	c.mustCreate(t, "clusterclaims", c.claim(id, "one"))
	c.mustCreate(t, "clusterclaims", c.claim(set, "fleet"))
	c.mustCreate(t, "clusterclaims", c.claim("region.example.com", "eu"))
	var err error
	// The workers may reach the id first; its refusal leaves the set deleted and a second call finishes.
	for range 2 {
		if err = c.resource("clusterclaims").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err == nil {
			break
		}
		if !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
	}
	if err != nil {
		t.Fatalf("deleting all claims twice: %v", err)
	}
	list, err := c.resource("clusterclaims").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) > 0 {
		t.Errorf("%d claims left", len(list.Items))
	}
}

func TestIDGoesWithItsLastFinalizer(t *testing.T) {
	t.Parallel()
	c := claimsOn(t, resourcetest.Start(t, options()))
	held := c.claim(id, "one")
	held.SetFinalizers([]string{"annex.test/hold"})
	c.mustCreate(t, "clusterclaims", held)
	if err := c.delete(t, id); err != nil {
		t.Fatal(err)
	}
	c.release(t, id)
	if _, err := c.resource("clusterclaims").Get(t.Context(), id, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want NotFound", err)
	}
}

func wantInvalid(t *testing.T, err error, field, message string) {
	t.Helper()
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), message) {
		t.Errorf("got %v, want 422 with %q", err, message)
		return
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == field {
			return
		}
	}
	t.Errorf("got causes %v, want one at %s", status.Status().Details.Causes, field)
}
