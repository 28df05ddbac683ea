// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversionmigrator

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// beginDefinition says in the definition of a custom resource that its objects are being migrated. It returns nil for other resources.
func (c *Controller) beginDefinition(ctx context.Context, m *migration) (*apiextensionsv1.CustomResourceDefinition, error) {
	return c.changeDefinition(ctx, resourceOf(m).String(), func(definition *apiextensionsv1.CustomResourceDefinition) {
		setMigrating(definition, apiextensionsv1.ConditionTrue, "MigrationRunning", fmt.Sprintf("Migration %s is running", m.Name))
	})
}

// endDefinition says that it is over. Objects are stored in one version alone then, if the definition has not been changed since the beginning.
func (c *Controller) endDefinition(ctx context.Context, begun *apiextensionsv1.CustomResourceDefinition, done bool) error {
	if begun == nil {
		return nil
	}
	_, err := c.changeDefinition(ctx, begun.Name, func(definition *apiextensionsv1.CustomResourceDefinition) {
		switch {
		case !done:
			setMigrating(definition, apiextensionsv1.ConditionFalse, "MigrationFailed", "The migration has failed")
		case definition.UID != begun.UID || definition.Generation != begun.Generation:
			setMigrating(definition, apiextensionsv1.ConditionFalse, "MigrationSucceeded",
				"The migration has succeeded, but the definition was changed meanwhile; the stored versions were left as they are")
		default:
			setMigrating(definition, apiextensionsv1.ConditionFalse, "MigrationSucceeded", "The migration has succeeded and the stored versions have been updated")
			for _, version := range definition.Spec.Versions {
				if version.Storage {
					definition.Status.StoredVersions = []string{version.Name}
				}
			}
		}
	})
	return err
}

// changeDefinition writes the status of a definition, if there is one of the name, and returns it as it is then.
func (c *Controller) changeDefinition(ctx context.Context, name string, change func(*apiextensionsv1.CustomResourceDefinition)) (*apiextensionsv1.CustomResourceDefinition, error) {
	var written *apiextensionsv1.CustomResourceDefinition
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		definition, err := c.definitions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(definition)
		written, err = c.definitions.UpdateStatus(ctx, definition, metav1.UpdateOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("write the status of the definition %s: %w", name, err)
	}
	return written, nil
}

func setMigrating(definition *apiextensionsv1.CustomResourceDefinition, status apiextensionsv1.ConditionStatus, reason, message string) {
	apihelpers.SetCRDCondition(definition, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.StorageMigrating, Status: status, Reason: reason, Message: message, ObservedGeneration: definition.Generation,
	})
}
