// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// member is an object with owners, which are members with lower numbers.
type member struct {
	of      schema.GroupVersionResource
	obj     *unstructured.Unstructured
	owners  []int
	deleted bool
}

// gone tells of each member whether it goes when those are deleted that are to be. Orphans stay.
func gone(members []*member, orphan bool) []bool {
	goes := make([]bool, len(members))
	for i, m := range members {
		goes[i] = m.deleted
		if orphan || len(m.owners) == 0 {
			continue
		}
		owned := false
		for _, owner := range m.owners {
			owned = owned || !goes[owner]
		}
		goes[i] = goes[i] || !owned
	}
	return goes
}

// family makes objects of all kinds that own each other, and deletes some of them.
func (s *story) family(ctx context.Context) error {
	namespace, err := s.namespace(ctx, "")
	if err != nil {
		return err
	}
	var members []*member
	for i := range 10 + s.random.IntN(8) {
		m, err := s.born(ctx, namespace, i, members)
		if err != nil {
			return err
		}
		members = append(members, m)
	}
	s.pause(ctx)
	orphan := s.chance(50)
	for i, m := range members {
		m.deleted = i == 0 || s.chance(15)
	}
	goes := gone(members, orphan)
	s.expect(members, goes)
	for i, m := range members {
		if !m.deleted {
			continue
		}
		policy := metav1.DeletePropagationOrphan
		if !orphan {
			policy = []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground}[s.random.IntN(2)]
		}
		if err := s.remove(ctx, m.of, m.obj, policy); err != nil {
			return fmt.Errorf("member %d: %w", i, err)
		}
		s.pause(ctx)
	}
	for i, m := range members {
		if !goes[i] || len(m.obj.GetFinalizers()) == 0 {
			continue
		}
		if err := s.release(ctx, m.of, m.obj.GetNamespace(), m.obj.GetName()); err != nil {
			return err
		}
		s.pause(ctx)
	}
	return nil
}

// born makes the next member. The first may be in no namespace, and own objects in one.
func (s *story) born(ctx context.Context, namespace string, i int, members []*member) (*member, error) {
	kind := samples()[s.random.IntN(len(samples()))]
	m := &member{of: kind.of}
	if i > 0 && !s.chance(10) {
		m.owners = []int{s.random.IntN(i)}
		if other := s.random.IntN(i); other != m.owners[0] && s.chance(40) {
			m.owners = append(m.owners, other)
		}
	}
	obj := described(kind.of, kind.kind, namespace, fmt.Sprintf("member-%d", i), kind.content(fmt.Sprint(s.random.Int())))
	if i == 0 && s.chance(40) {
		m.of = clusterRoles
		obj = described(clusterRoles, "ClusterRole", "", prefix+s.name+"-owner", map[string]any{"rules": []any{ruleAbout("x")}})
	}
	var references []metav1.OwnerReference
	for _, owner := range m.owners {
		owning, blocking := members[owner].obj, s.chance(60)
		references = append(references, metav1.OwnerReference{
			APIVersion: owning.GetAPIVersion(), Kind: owning.GetKind(), Name: owning.GetName(), UID: owning.GetUID(), BlockOwnerDeletion: &blocking,
		})
	}
	if len(references) > 0 {
		obj.SetOwnerReferences(references)
	}
	if s.chance(20) {
		obj.SetFinalizers([]string{hold})
	}
	created, _, err := s.create(ctx, m.of, obj)
	m.obj = created
	return m, err
}

// expect enters what becomes of the members.
func (s *story) expect(members []*member, goes []bool) {
	for i, m := range members {
		if goes[i] {
			continue
		}
		s.ledger.keep(m.of, m.obj)
		for _, owner := range m.owners {
			if goes[owner] {
				s.ledger.letGo(idOf(m.of, m.obj), members[owner].obj.GetUID())
			}
		}
	}
}
