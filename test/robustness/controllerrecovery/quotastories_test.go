// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

const (
	// creators share a namespace.
	creators = 8
	// triesEach is more than there is room for.
	triesEach = 4
)

func exceeded(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// crowd has many creators fill a namespace with quotas, removes a part, and has them fill it again.
func (s *story) crowd(ctx context.Context) error {
	namespace, err := s.namespace(ctx, "")
	if err != nil {
		return err
	}
	// Each has a kind of which it allows none, by which it is seen that a replica knows it.
	limits := []map[string]any{
		{"secrets": fmt.Sprint(6 + s.random.IntN(10)), "count/widgets." + group: "14", "count/leases.coordination.k8s.io": "0"},
		{"count/secrets": "12", "count/widgets." + group: fmt.Sprint(6 + s.random.IntN(6)), "count/roles.rbac.authorization.k8s.io": "0"},
	}
	for i, hard := range limits {
		name := fmt.Sprintf("quota-%d", i)
		content := map[string]any{"spec": map[string]any{"hard": hard}}
		quota, _, err := s.create(ctx, quotas, described(quotas, "ResourceQuota", namespace, name, content))
		if err != nil {
			return err
		}
		s.ledger.keepIf(quotas, quota, nil)
	}
	if err := s.limited(ctx, namespace, samples()[3:]...); err != nil {
		return err
	}
	for turn := range 3 {
		made, err := s.fill(ctx, namespace, turn)
		if err != nil {
			return err
		}
		s.pause(ctx)
		for _, object := range made {
			if turn == 2 || s.chance(50) {
				continue
			}
			s.ledger.forget(idOf(object.of, object.obj))
			if err := s.remove(ctx, object.of, object.obj, ""); err != nil {
				return err
			}
		}
		s.pause(ctx)
	}
	return nil
}

// limited waits until all replicas apply the quotas of a namespace, which allow none of some kinds.
func (s *story) limited(ctx context.Context, namespace string, kinds ...sample) error {
	for _, none := range kinds {
		err := s.everywhere(ctx, func(ctx context.Context, client dynamic.Interface) error {
			obj := described(none.of, none.kind, namespace, "none", none.content("none"))
			_, err := in(client, none.of, namespace).Create(ctx, obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if exceeded(err) {
				return nil
			}
			return fmt.Errorf("the quotas of %s are not known: %w", namespace, err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fill has all creators make objects until each has been refused some.
func (s *story) fill(ctx context.Context, namespace string, turn int) (made []leftover, err error) {
	var creating sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for creator := range creators {
		kind, own := samples()[1+creator%2], s.beside()
		creating.Go(func() {
			for try := range triesEach {
				obj := described(kind.of, kind.kind, namespace, fmt.Sprintf("o-%d-%d-%d", turn, creator, try), kind.content(fmt.Sprint(try)))
				created, unsure, err := own.create(ctx, kind.of, obj)
				mu.Lock()
				s.entered(leftover{kind.of, obj}, created, unsure, err)
				if created != nil {
					made = append(made, leftover{kind.of, created})
				}
				if err != nil && !exceeded(err) {
					errs = append(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	creating.Wait()
	return made, errors.Join(errs...)
}

// entered puts down what has become of an attempt. A request that was not answered may have been done after all.
func (s *story) entered(wanted leftover, created *unstructured.Unstructured, unsure bool, err error) {
	switch {
	case err == nil:
		s.ledger.keep(wanted.of, created)
	case unsure:
		s.ledger.perhaps(idOf(wanted.of, wanted.obj))
	}
}
