// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// aggregated deletes owners of objects of the extension server while that is not registered, and a namespace while it is killed.
func (s *story) aggregated(ctx context.Context) error {
	if err := s.register(ctx); err != nil {
		return err
	}
	if err := s.cleanAggregated(ctx); err != nil {
		return err
	}
	staying, err := s.aggregatedNamespace(ctx, "-stays")
	if err != nil {
		return err
	}
	for turn := range 3 {
		if err := s.away(ctx, staying.GetName(), turn, turn != 1); err != nil {
			return err
		}
		s.pause(ctx)
	}
	going, err := s.aggregatedNamespace(ctx, "-goes")
	if err != nil {
		return err
	}
	for i := range 3 {
		if _, err := s.part(ctx, going.GetName(), fmt.Sprintf("part-%d", i)); err != nil {
			return err
		}
	}
	s.extension.kill()
	s.ledger.forgetNamespace(going.GetName())
	err = s.remove(ctx, namespaces, going, metav1.DeletePropagationBackground)
	s.pause(ctx)
	return errors.Join(err, s.extension.launch())
}

// away deletes owners while the extension server is not registered, in the foreground and the background and, with a leader that lives,
// by orphaning.
func (s *story) away(ctx context.Context, namespace string, turn int, orphaning bool) error {
	policies := []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground}
	if orphaning {
		policies = append(policies, metav1.DeletePropagationOrphan, metav1.DeletePropagationOrphan)
	}
	var owners []*unstructured.Unstructured
	for i, policy := range policies {
		owner, _, err := s.create(ctx, configMaps, described(configMaps, "ConfigMap", namespace, fmt.Sprintf("owner-%d-%d", turn, i), nil))
		if err != nil {
			return err
		}
		owners = append(owners, owner)
		for j := range 3 {
			child, err := s.part(ctx, namespace, fmt.Sprintf("child-%d-%d-%d", turn, i, j), referenceTo(owner))
			if err != nil {
				return err
			}
			if policy == metav1.DeletePropagationOrphan {
				s.ledger.keep(parts, child)
				s.ledger.letGo(idOf(parts, child), owner.GetUID())
			}
		}
	}
	if orphaning {
		// The next leader does not know the objects of a kind that is not registered.
		s.calm.RLock()
		defer s.calm.RUnlock()
		if err := s.followed(ctx, parts, "Part", namespace, fmt.Sprintf("last-%d", turn)); err != nil {
			return err
		}
	}
	if err := s.unregister(ctx); err != nil {
		return err
	}
	s.pause(ctx)
	var err error
	for i, policy := range policies {
		err = errors.Join(err, s.remove(ctx, configMaps, owners[i], policy))
	}
	s.pause(ctx)
	return errors.Join(err, s.register(ctx))
}

func (s *story) part(ctx context.Context, namespace, name string, owners ...metav1.OwnerReference) (*unstructured.Unstructured, error) {
	obj, _, err := s.create(ctx, parts, described(parts, "Part", namespace, name, nil, owners...))
	return obj, err
}

// aggregatedNamespace makes a namespace that the next round of the story removes. A namespace does not wait for kinds that are not registered.
func (s *story) aggregatedNamespace(ctx context.Context, suffix string) (*unstructured.Unstructured, error) {
	created, _, err := s.create(ctx, namespaces, described(namespaces, "Namespace", "", prefix+s.name+suffix, nil))
	if err == nil {
		s.ledger.keepIf(namespaces, created, nil)
		s.extension.leftovers = append(s.extension.leftovers, leftover{namespaces, created})
	}
	return created, err
}

// cleanAggregated removes the namespaces of the round before, and waits until they are gone.
func (s *story) cleanAggregated(ctx context.Context) error {
	leftovers := s.extension.leftovers
	s.extension.leftovers = nil
	if err := s.clean(ctx, leftovers); err != nil {
		return err
	}
	for _, left := range leftovers {
		if err := s.gone(ctx, left.of, left.obj); err != nil {
			return err
		}
	}
	return nil
}
