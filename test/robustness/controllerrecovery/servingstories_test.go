// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kube-annex/annex/test/framework/poll"
)

// longestComing limits how long the versions of a kind change after all requests were sent.
const longestComing = 15 * time.Second

// gears are a custom kind of one story, in two versions.
type gears struct {
	kind       string
	definition *unstructured.Unstructured
	// versions are those of its objects. The second is preferred, and the first is stored.
	versions [2]schema.GroupVersionResource
}

// define creates the kind of a story, and waits until all replicas serve it.
func (s *story) define(ctx context.Context) (*gears, error) {
	g := &gears{kind: "Gear" + strings.ReplaceAll(s.name, "-", "")}
	plural := prefix + "gears-" + s.name
	for i, version := range []string{"v1", "v2"} {
		g.versions[i] = schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
	}
	wanted := definitionOf(plural, g.kind)
	setServed(wanted, true, true)
	var err error
	if g.definition, _, err = s.create(ctx, definitions, wanted); err != nil {
		return nil, err
	}
	s.ledger.keepIf(definitions, g.definition, nil)
	s.later(definitions, g.definition)
	for _, version := range g.versions {
		if err := s.served(ctx, version); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func setServed(definition *unstructured.Unstructured, first, second bool) {
	_ = unstructured.SetNestedSlice(definition.Object, []any{
		map[string]any{"name": "v1", "served": first, "storage": true, "schema": schemaOfAnything()},
		map[string]any{"name": "v2", "served": second, "storage": false, "schema": schemaOfAnything()},
	}, "spec", "versions")
}

// comeAndGo changes the served versions of the kind, sometimes to none, until it is stopped. Both are served in the end.
func comeAndGo(ctx context.Context, g *gears, requests *requests, stop <-chan struct{}) error {
	serve := func(first, second bool) error {
		requests.note("%s is served in v1: %t, in v2: %t", g.definition.GetName(), first, second)
		_, err := requests.change(ctx, definitions, "", g.definition.GetName(), "", func(definition *unstructured.Unstructured) {
			setServed(definition, first, second)
		})
		return err
	}
	for {
		mode := requests.random.IntN(4)
		if err := serve(mode == 0, mode == 1); err != nil {
			return err
		}
		select {
		case <-stop:
			return serve(true, true)
		case <-time.After(time.Duration(requests.random.Int64N(int64(longestPause)))):
		}
	}
}

// serving deletes owners in every way, an owner of its own kind, and a namespace, while the versions of the kind come and go.
func (s *story) serving(ctx context.Context) error {
	staying, err := s.namespace(ctx, "-stays")
	if err != nil {
		return err
	}
	var going []leftover
	for i := range 4 {
		name, err := s.namespace(ctx, fmt.Sprintf("-goes-%d", i))
		if err != nil {
			return err
		}
		namespace, err := s.get(ctx, namespaces, "", name)
		if err != nil {
			return err
		}
		going = append(going, leftover{namespaces, namespace})
	}
	g, err := s.define(ctx)
	if err != nil {
		return err
	}
	gear := func(namespace, name string, owners ...metav1.OwnerReference) (*unstructured.Unstructured, error) {
		obj, _, err := s.create(ctx, g.versions[1], described(g.versions[1], g.kind, namespace, name, map[string]any{"spec": map[string]any{"text": name}}, owners...))
		return obj, err
	}
	type owner struct {
		leftover
		policy metav1.DeletionPropagation
	}
	var owners []owner
	for i, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground,
	} {
		obj, _, err := s.create(ctx, configMaps, described(configMaps, "ConfigMap", staying, fmt.Sprintf("owner-%d", i), nil))
		if err != nil {
			return err
		}
		owners = append(owners, owner{leftover{configMaps, obj}, policy})
		for j := range 4 {
			child, err := gear(staying, fmt.Sprintf("child-%d-%d", i, j), referenceTo(obj))
			if err != nil {
				return err
			}
			if policy == metav1.DeletePropagationOrphan {
				s.ledger.keep(g.versions[1], child)
				s.ledger.letGo(idOf(g.versions[1], child), obj.GetUID())
			}
		}
	}
	for _, namespace := range going {
		for i := range 3 {
			if _, err := gear(namespace.obj.GetName(), fmt.Sprintf("gear-%d", i)); err != nil {
				return err
			}
		}
	}
	// What a gear owns stays with it, whatever is served.
	keeping, err := gear(staying, "keeping")
	if err != nil {
		return err
	}
	s.ledger.keep(g.versions[1], keeping)
	kept, _, err := s.create(ctx, secrets, described(secrets, "Secret", staying, "kept", nil, referenceTo(keeping)))
	if err != nil {
		return err
	}
	s.ledger.keep(secrets, kept)

	changed, stop, beside := make(chan error, 1), make(chan struct{}), s.beside()
	go func() { changed <- comeAndGo(ctx, g, beside, stop) }()
	for i, owner := range owners {
		s.pause(ctx)
		err = errors.Join(err, s.remove(ctx, owner.of, owner.obj, owner.policy))
		s.ledger.forgetNamespace(going[i].obj.GetName())
		err = errors.Join(err, s.remove(ctx, namespaces, going[i].obj, metav1.DeletePropagationBackground))
	}
	// What controllers do while it comes and goes is what this is about; what they have not done then they do later.
	_ = poll.Until(ctx, longestComing, func(ctx context.Context) error {
		for _, namespace := range going {
			if _, err := s.get(ctx, namespaces, "", namespace.obj.GetName()); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is still there: %w", namespace.obj.GetName(), err)
			}
		}
		return nil
	})
	close(stop)
	return errors.Join(err, <-changed)
}

// ending deletes a definition while an object of its kind waits for a dependent, which is released when another replica leads.
func (s *story) ending(ctx context.Context) error {
	namespace, err := s.namespace(ctx, "")
	if err != nil {
		return err
	}
	plural, kind := prefix+"ends-"+s.name, "End"+strings.ReplaceAll(s.name, "-", "")
	definition, _, err := s.create(ctx, definitions, definitionOf(plural, kind))
	if err != nil {
		return err
	}
	of := schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
	if err := s.served(ctx, of); err != nil {
		return err
	}
	wanted := described(of, kind, namespace, "owner", nil)
	wanted.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
	owner, _, err := s.create(ctx, of, wanted)
	if err != nil {
		return err
	}
	child := described(secrets, "Secret", namespace, "child", nil, referenceTo(owner))
	child.SetFinalizers([]string{hold})
	if _, _, err := s.create(ctx, secrets, child); err != nil {
		return err
	}
	if err := s.remove(ctx, definitions, definition, metav1.DeletePropagationBackground); err != nil {
		return err
	}
	var holder string
	err = poll.Until(ctx, patience, func(ctx context.Context) error {
		current, err := s.get(ctx, secrets, namespace, child.GetName())
		if err == nil && current.GetDeletionTimestamp() == nil {
			err = errors.New("the dependent is not being deleted")
		}
		if err == nil {
			holder, err = s.holder(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = poll.Until(ctx, patience, func(ctx context.Context) error {
		current, err := s.holder(ctx)
		if err == nil && current == holder {
			err = fmt.Errorf("%s still leads", holder)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.release(ctx, secrets, namespace, child.GetName())
}

// switching deletes owners while their preferred version ceases to be served, and wants their dependents collected by the same leader: the next
// one would collect them in any case.
func (s *story) switching(ctx context.Context) error {
	namespace, err := s.namespace(ctx, "")
	if err != nil {
		return err
	}
	g, err := s.define(ctx)
	if err != nil {
		return err
	}
	var owners, children []*unstructured.Unstructured
	for i := range 40 {
		owner, _, err := s.create(ctx, g.versions[1], described(g.versions[1], g.kind, namespace, fmt.Sprintf("owner-%d", i), nil))
		if err != nil {
			return err
		}
		child, _, err := s.create(ctx, secrets, described(secrets, "Secret", namespace, fmt.Sprintf("child-%d", i), nil, referenceTo(owner)))
		if err != nil {
			return err
		}
		owners, children = append(owners, owner), append(children, child)
	}
	s.calm.RLock()
	defer s.calm.RUnlock()
	if err := s.followed(ctx, g.versions[1], g.kind, namespace, "last"); err != nil {
		return err
	}
	switched, beside := make(chan error, 1), s.beside()
	go func() {
		var err error
		for i := range 6 {
			_, failure := beside.change(ctx, definitions, "", g.definition.GetName(), "", func(definition *unstructured.Unstructured) {
				setServed(definition, true, i%2 == 1)
			})
			err = errors.Join(err, failure)
			poll.Pause(ctx, 250*time.Millisecond)
		}
		switched <- err
	}()
	for _, owner := range owners {
		err = errors.Join(err, s.remove(ctx, g.versions[0], owner, metav1.DeletePropagationBackground))
		poll.Pause(ctx, 20*time.Millisecond)
	}
	if err := errors.Join(err, <-switched); err != nil {
		return err
	}
	return s.gone(ctx, secrets, children...)
}

// unserved deletes a namespace with objects of a kind of which no version is served, until the namespace is known to wait for them.
func (s *story) unserved(ctx context.Context) error {
	namespace, _, err := s.create(ctx, namespaces, described(namespaces, "Namespace", "", prefix+s.name, nil))
	if err != nil {
		return err
	}
	g, err := s.define(ctx)
	if err != nil {
		return err
	}
	for i := range 3 {
		obj := described(g.versions[1], g.kind, namespace.GetName(), fmt.Sprintf("gear-%d", i), nil)
		if _, _, err := s.create(ctx, g.versions[1], obj); err != nil {
			return err
		}
	}
	serve := func(served bool) error {
		_, err := s.change(ctx, definitions, "", g.definition.GetName(), "", func(definition *unstructured.Unstructured) { setServed(definition, served, served) })
		return err
	}
	if err := serve(false); err != nil {
		return err
	}
	for _, version := range g.versions {
		if err := s.absent(ctx, version); err != nil {
			return err
		}
	}
	if err := s.remove(ctx, namespaces, namespace, metav1.DeletePropagationBackground); err != nil {
		return err
	}
	err = poll.Until(ctx, patience, func(ctx context.Context) error {
		current, err := s.get(ctx, namespaces, "", namespace.GetName())
		if apierrors.IsNotFound(err) {
			return nil // what was in it is still there, which the ledger notices
		}
		if err == nil && !strings.Contains(fmt.Sprint(current.Object["status"]), "defined but not served") {
			err = fmt.Errorf("%s does not wait for its objects", namespace.GetName())
		}
		return err
	})
	return errors.Join(err, serve(true))
}

// absent returns once no replica serves the kind.
func (q *requests) absent(ctx context.Context, of schema.GroupVersionResource) error {
	return q.everywhere(ctx, func(ctx context.Context, client dynamic.Interface) error {
		_, err := client.Resource(of).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			err = errors.New("the kind is still served")
		}
		return err
	})
}

// followed waits until the leader collects an object of a kind, after which it knows those that were there before.
func (s *story) followed(ctx context.Context, of schema.GroupVersionResource, kind, namespace, name string) error {
	absent := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "absent", UID: "66666666-6666-6666-6666-666666666666"}
	last, _, err := s.create(ctx, of, described(of, kind, namespace, name, nil, absent))
	if err != nil {
		return err
	}
	return s.gone(ctx, of, last)
}

// gone waits until there are none of some objects.
func (s *story) gone(ctx context.Context, of schema.GroupVersionResource, objects ...*unstructured.Unstructured) error {
	return poll.Until(ctx, patience, func(ctx context.Context) error {
		for _, obj := range objects {
			_, err := s.get(ctx, of, obj.GetNamespace(), obj.GetName())
			if err == nil {
				return fmt.Errorf("%s is still there", idOf(of, obj))
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

// holder returns the holder of the Lease of the controllers.
func (q *requests) holder(ctx context.Context) (string, error) {
	lease, err := q.get(ctx, leases, metav1.NamespaceSystem, "annex-controlplane")
	if err != nil {
		return "", err
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	if holder == "" {
		return "", errors.New("no replica leads")
	}
	return holder, nil
}

// referenceTo is to an owner whose deletion waits for the dependent.
func referenceTo(owner *unstructured.Unstructured) metav1.OwnerReference {
	blocking := true
	return metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: &blocking}
}
