// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	wire "github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/server/internal/filters/fencing"
)

// verbs are all ways to write. Each works on an object of its own, which is there unless the verb creates it.
var verbs = map[string]func(ctx context.Context, client dynamic.ResourceInterface, name string) error{
	"create": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		_, err := client.Create(ctx, balloon(name, "2"), metav1.CreateOptions{})
		return err
	},
	"create with a generated name": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		body := balloon("", "2")
		body.SetGenerateName(name + "-")
		_, err := client.Create(ctx, body, metav1.CreateOptions{})
		return err
	},
	"create by apply": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		_, err := client.Apply(ctx, name, balloon(name, "2"), metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err
	},
	"update": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		body, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		body.Object["spec"] = balloon(name, "3").Object["spec"]
		_, err = client.Update(ctx, body, metav1.UpdateOptions{})
		return err
	},
	"update of status": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		body, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		body.Object["status"] = map[string]any{"podName": "pod"}
		_, err = client.UpdateStatus(ctx, body, metav1.UpdateOptions{})
		return err
	},
	"patch": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		return err
	},
	"patch of a subresource": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"balloonSize":{"cpu":"5"}}}`), metav1.PatchOptions{}, "resize")
		return err
	},
	"apply": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		_, err := client.Apply(ctx, name, balloon(name, "4"), metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err
	},
	"delete": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		return client.Delete(ctx, name, metav1.DeleteOptions{})
	},
	"delete that waits for a finalizer": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		return client.Delete(ctx, name, metav1.DeleteOptions{})
	},
	"delete by the last finalizer": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	},
	"deletecollection": func(ctx context.Context, client dynamic.ResourceInterface, name string) error {
		return client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	},
}

// prepare makes what the verb works on.
func prepare(t *testing.T, w *world, verb, name string) {
	t.Helper()
	if strings.HasPrefix(verb, "create") {
		return
	}
	body := balloon(name, "1")
	if strings.Contains(verb, "finalizer") {
		body.SetFinalizers([]string{"annex.test/hold"})
	}
	unfenced := w.as()
	if _, err := unfenced.Create(t.Context(), body, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if verb == "delete by the last finalizer" {
		if err := unfenced.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// stored returns everything, to tell whether something was written.
func stored(t *testing.T, w *world) map[string]string {
	t.Helper()
	list, err := w.as().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
	}
	return out
}

func askHost(t *testing.T) func(*rest.Config, *fencing.Metrics) fencing.Check {
	return func(config *rest.Config, metrics *fencing.Metrics) fencing.Check {
		host, err := coordinationclient.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return fencing.AskHost(host, metrics)
	}
}

func TestEveryVerbOfALateWriterIsRefused(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(*rest.Config, *fencing.Metrics) fencing.Check{
		"in-transaction": inTransaction,
		"ask-host":       askHost(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startWorld(t, "verbs-"+name, check)
			lease, old := w.lead(nil, "one")
			lease, current := w.lead(lease, "two")
			late, leader := w.as(old.String()), w.as(current.String())
			n := 0
			for verb, write := range verbs {
				n++
				object := "node-" + string(rune('a'+n))
				prepare(t, w, verb, object)
				before, count := stored(t, w), w.refused()
				err := write(t.Context(), late, object)
				wantRefused(t, verb, err, "the term of Lease "+lease.Namespace+"/leader held by one, after 0 transitions, is over: two holds the Lease now, after 1 transitions; the write was refused")
				if diff := cmp.Diff(before, stored(t, w)); diff != "" {
					t.Errorf("%s: a late write was stored (-before,+after):\n%s", verb, diff)
				}
				if got := w.refused() - count; got != 1 {
					t.Errorf("%s: %v late writes were counted, want 1", verb, got)
				}
				if err := write(t.Context(), leader, object); err != nil {
					t.Errorf("%s by the leader: %v", verb, err)
				}
				if diff := cmp.Diff(before, stored(t, w)); diff == "" {
					t.Errorf("%s: the leader's write was not stored", verb)
				}
			}
			if _, err := late.List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("a read of a late client: %v, want none", err)
			}
		})
	}
}

func wantRefused(t *testing.T, what string, err error, message string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !wire.IsTermOver(err) || err.Error() != message {
		t.Errorf("%s: got %v (%s), want a 403 for a term that is over:\n%s", what, err, apierrors.ReasonForError(err), message)
	}
}

func TestWhatBecameOfTheLease(t *testing.T) {
	t.Parallel()
	release := func(w *world, lease *coordinationv1.Lease) {
		lease.Spec.HolderIdentity = nil
		if _, err := w.leases.Update(w.t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
	remove := func(w *world, _ *coordinationv1.Lease) {
		if err := w.leases.Delete(w.t.Context(), "leader", metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
	cases := map[string]struct {
		happens func(w *world, lease *coordinationv1.Lease)
		want    string // why the term is over; empty if it is not
	}{
		"nothing":  {func(*world, *coordinationv1.Lease) {}, ""},
		"released": {release, "nobody holds the Lease now"},
		"deleted":  {remove, "the Lease is gone"},
		"deleted and made anew by the same holder": {func(w *world, lease *coordinationv1.Lease) {
			remove(w, lease)
			w.lead(nil, "one")
		}, "the Lease was deleted and made anew since"},
		"taken again by the same holder": {func(w *world, lease *coordinationv1.Lease) { w.lead(lease, "one") }, "one holds the Lease now, after 1 transitions"},
		"taken without a transition": {func(w *world, lease *coordinationv1.Lease) {
			next := lease.DeepCopy()
			*next.Spec.HolderIdentity = "one_2"
			if _, err := w.leases.Update(w.t.Context(), next, metav1.UpdateOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}, "one_2 holds the Lease now, after 0 transitions"},
	}
	for how, check := range map[string]func(*rest.Config, *fencing.Metrics) fencing.Check{"in-transaction": inTransaction, "ask-host": askHost(t)} {
		n := 0
		for name, tc := range cases {
			n++
			namespace := how + "-" + string(rune('a'+n))
			t.Run(how+": "+name, func(t *testing.T) {
				t.Parallel()
				w := startWorld(t, namespace, check)
				lease, term := w.lead(nil, "one")
				tc.happens(w, lease)
				_, err := w.as(term.String()).Create(t.Context(), balloon("node", "1"), metav1.CreateOptions{})
				if tc.want != "" {
					wantRefused(t, "create", err, "the term of Lease "+namespace+"/leader held by one, after 0 transitions, is over: "+tc.want+"; the write was refused")
				} else if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestWhatWritesNothingIsNotRefused is what servers leave out that have the Leases in their etcd.
func TestWhatWritesNothingIsNotRefused(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "nothing", inTransaction)
	lease, term := w.lead(nil, "one")
	w.lead(lease, "two")
	prepare(t, w, "update", "node")
	late := w.as(term.String())
	body, err := late.Get(t.Context(), "node", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same, err := late.Update(t.Context(), body, metav1.UpdateOptions{})
	if err != nil || same.GetResourceVersion() != body.GetResourceVersion() {
		t.Errorf("an update that changes nothing: %v", err)
	}
	dry := []string{metav1.DryRunAll}
	body.SetLabels(map[string]string{"a": "b"})
	if _, err := late.Update(t.Context(), body, metav1.UpdateOptions{DryRun: dry}); err != nil {
		t.Errorf("a dry-run update: %v", err)
	}
	if err := late.Delete(t.Context(), "node", metav1.DeleteOptions{DryRun: dry}); err != nil {
		t.Errorf("a dry-run delete: %v", err)
	}
	if err := late.Delete(t.Context(), "none", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleting what is not there: got %v, want 404", err)
	}
	// An object that is there is not what the late writer learns.
	if _, err := late.Create(t.Context(), balloon("node", "1"), metav1.CreateOptions{}); !wire.IsTermOver(err) {
		t.Errorf("creating what is there: got %v, want 403", err)
	}
}

func TestMalformedHeaders(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "malformed", inTransaction)
	_, term := w.lead(nil, "one")
	for name, tc := range map[string]struct {
		headers []string
		want    string
	}{
		"empty":             {[]string{""}, "is not of the form namespace/lease;uid;transitions;holder"},
		"nonsense":          {[]string{"nonsense"}, `"nonsense" is not of the form`},
		"without a holder":  {[]string{"a/b;uid;1;"}, "is not of the form"},
		"negative":          {[]string{"a/b;uid;-1;one"}, "is not of the form"},
		"another directory": {[]string{"../b;uid;1;one"}, "is not of the form"},
		"too long":          {[]string{term.String() + strings.Repeat("x", 1024)}, "is not of the form"},
		"twice":             {[]string{term.String(), term.String()}, "it is there 2 times"},
	} {
		for verb, write := range verbs {
			if verb == "update" || verb == "update of status" {
				continue // they read first
			}
			// Nothing is there to be written; the header is looked at before that.
			if err := write(t.Context(), w.as(tc.headers...), "node"); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s, %s: got %v, want 400 with %q", name, verb, err, tc.want)
			}
		}
		if _, err := w.as(tc.headers...).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: a read got %v, want the header to be ignored", name, err)
		}
	}
	if got := w.refused(); got != 0 {
		t.Errorf("%v late writes were counted, want 0", got)
	}
}
