// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversionmigrator

import (
	"context"
	"errors"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// maxMessage is what the API allows for the message of a condition.
const maxMessage = 32768

// errGone is that a migration is not there any more, or that somebody else has ended it.
var errGone = errors.New("the migration is no longer wanted")

func ended(m *migration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1.MigrationSucceeded)) ||
		meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1.MigrationFailed))
}

// set writes conditions, and the resource version at which a migration began if it has none yet.
func (c *Controller) set(ctx context.Context, m *migration, begun string, conditions ...metav1.Condition) error {
	current := m
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		changed := current.DeepCopy()
		if changed.Status.ResourceVersion == "" {
			changed.Status.ResourceVersion = begun
		}
		for _, condition := range conditions {
			condition.ObservedGeneration = changed.Generation
			condition.Message = condition.Message[:min(len(condition.Message), maxMessage)]
			meta.SetStatusCondition(&changed.Status.Conditions, condition)
		}
		_, err := c.migrations.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			return errGone
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		latest, getErr := c.migrations.Get(ctx, m.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(getErr) {
			return errGone
		}
		if getErr != nil {
			return getErr
		}
		if latest.UID != m.UID || ended(latest) {
			return errGone
		}
		current = latest
		return err
	})
}

func running() metav1.Condition {
	return metav1.Condition{
		Type: string(storagemigrationv1.MigrationRunning), Status: metav1.ConditionTrue, Reason: "MigrationRunning", Message: "The migration is running",
	}
}

// waiting is running where something is in the way that may pass.
func waiting(obstacle error) metav1.Condition {
	condition := running()
	condition.Message += "; it is tried again after: " + obstacle.Error()
	return condition
}

// over is what becomes of the condition running.
func over() metav1.Condition {
	return metav1.Condition{
		Type: string(storagemigrationv1.MigrationRunning), Status: metav1.ConditionFalse, Reason: "MigrationCompleted", Message: "Migration completed",
	}
}

func succeeded(message string) metav1.Condition {
	return metav1.Condition{
		Type: string(storagemigrationv1.MigrationSucceeded), Status: metav1.ConditionTrue, Reason: "StorageVersionMigrationSucceeded", Message: message,
	}
}

func failed(message string) metav1.Condition {
	return metav1.Condition{
		Type: string(storagemigrationv1.MigrationFailed), Status: metav1.ConditionTrue, Reason: "StorageVersionMigrationFailed", Message: message,
	}
}
