// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterproperties

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
)

// Action is what was done with an object.
type Action string

// What is done with an object.
const (
	Created   Action = "created"
	Updated   Action = "updated"
	Unchanged Action = "unchanged"
	Refused   Action = "refused"
)

const (
	fieldManager = "annex-claims"
	// attempts is how often an object is taken that somebody else changes at the same time.
	attempts = 5
	// maxShownRunes keeps a long value from filling a line.
	maxShownRunes = 64
)

// Options say how objects are taken into a cluster.
type Options struct {
	// DryRun asks the cluster what it would do, and changes nothing.
	DryRun bool
	// Overwrite replaces values, labels and annotations that are there, other than that of a set.
	Overwrite bool
}

// Report is told of each object: what it is called where it goes to, what was done, and why if it was refused.
type Report func(object string, action Action, note string)

// Import takes ClusterClaims that were made of ClusterProperties into the cluster. It returns how many were refused; an error means that
// it was not finished.
func (c *Cluster) Import(ctx context.Context, items []Item, o Options, report Report) (int, error) {
	return c.take(ctx, c.claims(), items, o, report)
}

// Export takes ClusterProperties that were made of ClusterClaims into the cluster, and returns what Import does.
func (c *Cluster) Export(ctx context.Context, items []Item, o Options, report Report) (int, error) {
	kind, err := c.properties(ctx)
	if err != nil {
		return 0, err
	}
	return c.take(ctx, kind, items, o, report)
}

func (c *Cluster) take(ctx context.Context, into *kindInCluster, items []Item, o Options, report Report) (int, error) {
	list, err := c.list(ctx, into)
	if err != nil {
		return 0, err
	}
	existing := map[string]*unstructured.Unstructured{}
	for i := range list {
		existing[list[i].GetName()] = &list[i]
	}
	t := &taking{into: into, options: o}
	refused := 0
	for _, item := range items {
		action, note, err := t.take(ctx, item, existing[item.Name])
		if err != nil {
			return refused, fmt.Errorf("write %s/%s: %w; what is said above was done, so repeat this to go on", into.called, item.Name, c.explain(err))
		}
		if action == Refused {
			refused++
		}
		if item.From != item.Name {
			note = strings.TrimSuffix("from "+item.From+": "+note, ": ")
		}
		report(into.called+"/"+item.Name, action, note)
	}
	return refused, nil
}

// taking is one run.
type taking struct {
	into    *kindInCluster
	options Options
	// refusedID is what was refused as the id, and newID tells that a dry run would have created it.
	refusedID string
	newID     bool
}

func (t *taking) take(ctx context.Context, item Item, existing *unstructured.Unstructured) (Action, string, error) {
	if item.Name == v1alpha1.ClaimClusterSet && item.Refusal == "" && t.refusedID != "" {
		return Refused, refusedWithTheID(t.refusedID), nil
	}
	action, note, err := Refused, item.Refusal, error(nil)
	if note == "" {
		action, note, err = t.write(ctx, item, existing)
	}
	if item.id {
		t.newID = action == Created
		if action == Refused {
			t.refusedID = item.From
		}
	}
	return action, note, err
}

// write creates or updates the object, whatever others do at the same time.
func (t *taking) write(ctx context.Context, item Item, existing *unstructured.Unstructured) (Action, string, error) {
	wanted := item.Object.DeepCopy()
	wanted.SetGroupVersionKind(t.into.kind)
	for attempt := 1; ; attempt++ {
		action, err := Created, error(nil)
		if existing == nil {
			err = t.create(ctx, wanted)
		} else {
			var refusal string
			if wanted, refusal = t.merge(existing, item.Object); refusal != "" {
				return Refused, refusal, nil
			}
			if wanted == nil {
				return Unchanged, "", nil
			}
			action, err = Updated, t.update(ctx, wanted)
		}
		switch {
		case err == nil:
			return action, "", nil
		case attempt < attempts && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)):
			found, getErr := t.into.client.Get(ctx, item.Name, metav1.GetOptions{})
			if existing = found; apierrors.IsNotFound(getErr) {
				existing, wanted = nil, item.Object.DeepCopy()
				wanted.SetGroupVersionKind(t.into.kind)
			} else if getErr != nil {
				return "", "", getErr
			}
		case isVerdict(err):
			return Refused, reason(err), nil
		default:
			return "", "", err
		}
	}
}

func (t *taking) dryRun() []string {
	if t.options.DryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func (t *taking) create(ctx context.Context, wanted *unstructured.Unstructured) error {
	if t.options.DryRun && t.into.claims && wanted.GetName() == v1alpha1.ClaimClusterSet && t.newID {
		// The server would miss the id that this run has not really made.
		return nil
	}
	_, err := t.into.client.Create(ctx, wanted, metav1.CreateOptions{DryRun: t.dryRun(), FieldManager: fieldManager})
	return err
}

func (t *taking) update(ctx context.Context, wanted *unstructured.Unstructured) error {
	_, err := t.into.client.Update(ctx, wanted, metav1.UpdateOptions{DryRun: t.dryRun(), FieldManager: fieldManager})
	return err
}

// merge returns what the existing object is to be, nil if it is that already, or why it is not touched. Labels and annotations that it
// has besides stay.
func (t *taking) merge(existing, wanted *unstructured.Unstructured) (merged *unstructured.Unstructured, refusal string) {
	var differs []string
	merged = existing.DeepCopy()
	if is, want := valueOf(existing), valueOf(wanted); is != want {
		if t.into.claims && wanted.GetName() == v1alpha1.ClaimClusterSet {
			return nil, fmt.Sprintf("the cluster is a member of %s, and an import does not end that; to join %s, leave first by deleting the ClusterClaim %s",
				shown(is), shown(want), v1alpha1.ClaimClusterSet)
		}
		differs = append(differs, fmt.Sprintf("its value is %s and not %s", shown(is), shown(want)))
		if err := unstructured.SetNestedField(merged.Object, want, "spec", "value"); err != nil {
			return nil, fmt.Sprintf("its spec cannot be written (%v); delete it", err)
		}
	}
	labels, labelsDiffer := mergeMaps("label", existing.GetLabels(), wanted.GetLabels())
	annotations, annotationsDiffer := mergeMaps("annotation", existing.GetAnnotations(), wanted.GetAnnotations())
	differs = append(append(differs, labelsDiffer...), annotationsDiffer...)
	merged.SetLabels(labels)
	merged.SetAnnotations(annotations)
	switch {
	case len(differs) > 0 && !t.options.Overwrite:
		return nil, "it is there, and " + strings.Join(differs, ", ") + "; --overwrite replaces that"
	case existing.GetDeletionTimestamp() != nil:
		return nil, "it is being deleted; repeat this when it is gone"
	case len(differs) == 0 && len(labels) == len(existing.GetLabels()) && len(annotations) == len(existing.GetAnnotations()):
		return nil, ""
	}
	return merged, ""
}

// mergeMaps adds what is wanted, and says what is replaced by that.
func mergeMaps(what string, existing, wanted map[string]string) (merged map[string]string, differs []string) {
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if is, there := existing[key]; there && is != wanted[key] {
			differs = append(differs, fmt.Sprintf("its %s %s is %s and not %s", what, key, shown(is), shown(wanted[key])))
		}
	}
	if merged = maps.Clone(existing); merged == nil && len(wanted) > 0 {
		merged = map[string]string{}
	}
	maps.Copy(merged, wanted)
	return merged, differs
}

// isVerdict tells whether the cluster has answered, so that the next object may fare better. Credentials are the same for all.
func isVerdict(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsUnauthorized(err)
}

// reason is what the server says, without the name that stands before it anyway.
func reason(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return err.Error()
	}
	var causes []string
	for _, cause := range status.Status().Details.Causes {
		causes = append(causes, strings.TrimPrefix(cause.Field+": "+cause.Message, ": "))
	}
	return strings.Join(causes, "; ")
}

// shown is the beginning of a value, in quotes.
func shown(value string) string {
	if runes := []rune(value); len(runes) > maxShownRunes {
		return fmt.Sprintf("%q…", string(runes[:maxShownRunes]))
	}
	return fmt.Sprintf("%q", value)
}
