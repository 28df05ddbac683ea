// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gatedfields_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

// TestNewUse sets each field in each way in each situation, first as a dry run and then twice.
func TestNewUse(t *testing.T) {
	t.Parallel()
	for name, situation := range situations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.Options{Own: situation.gates()})
			if situation.state != "" {
				for gate := range situation.gates() {
					setState(t, s, gate, situation.state, situation.tasks...)
				}
			}
			number := 0
			for path, r := range rows {
				for how, verb := range verbs {
					if verb.creates && r.subresource != "" || verb.strategic && r.strategic == nil {
						continue
					}
					number++
					object := fmt.Sprintf("widget-%d", number)
					t.Run(path+", "+how, func(t *testing.T) {
						t.Parallel()
						newUse{t: t, server: s, client: widgetsOf(t, s), row: r, verb: verb, name: object, situation: situation}.check()
					})
				}
			}
		})
	}
}

// newUse is one way to set one field in one situation.
type newUse struct {
	t         *testing.T
	server    *server.Server
	client    client
	row       row
	verb      verb
	name      string
	situation situation
	before    *unstructured.Unstructured
}

func (u newUse) check() {
	if !u.verb.creates {
		u.before = u.row.create(u.t, u.client, u.name, u.row.without)
	}
	stored, revision := raw(u.t, u.server, u.name)

	dry, err := u.verb.write(u.t, u.client, u.row, u.name, u.before, true)
	u.verdict("dry run", dry, err)
	if again, at := raw(u.t, u.server, u.name); at != revision || !bytes.Equal(again, stored) {
		u.t.Errorf("a dry run changed what is stored")
	}
	if err != nil {
		_, err = u.verb.write(u.t, u.client, u.row, u.name, u.before, false)
		u.verdict("write", nil, err)
		if _, at := raw(u.t, u.server, u.name); at != revision {
			u.t.Error("a rejected write changed what is stored")
		}
		return
	}

	out, err := u.verb.write(u.t, u.client, u.row, u.name, u.before, false)
	u.verdict("write", out, err)
	if err != nil {
		return
	}
	if diff := cmp.Diff(timeless(dry), timeless(out)); diff != "" {
		u.t.Errorf("a dry run shows another result (-dry,+real):\n%s", diff)
	}
	bytesNow, at := raw(u.t, u.server, u.name)
	if has := bytes.Contains(bytesNow, []byte(u.row.leaf)); has != u.situation.permitted {
		u.t.Errorf("stored bytes name %s: %t, want %t", u.row.leaf, has, u.situation.permitted)
	}
	if u.situation.permitted {
		return
	}
	// Nothing else was written, so nothing has changed but who owns what is applied.
	if u.before != nil && !strings.Contains(u.t.Name(), "apply") && at != revision {
		u.t.Errorf("a write of which all was dropped moved the mod revision from %d to %d", revision, at)
	}
	if u.before != nil && out.GetGeneration() != u.before.GetGeneration() {
		u.t.Errorf("a write of which all was dropped moved generation from %d to %d", u.before.GetGeneration(), out.GetGeneration())
	}
	if u.verb.creates && !strings.Contains(u.t.Name(), "apply") {
		return
	}
	u.before = out
	again, err := u.verb.write(u.t, u.client, u.row, u.name, u.before, false)
	u.verdict("second write", again, err)
	if err == nil && (again.GetResourceVersion() != out.GetResourceVersion() || again.GetGeneration() != out.GetGeneration()) {
		u.t.Errorf("writing the same again moved resourceVersion from %s to %s and generation from %d to %d",
			out.GetResourceVersion(), again.GetResourceVersion(), out.GetGeneration(), again.GetGeneration())
	}
}

// verdict judges one answer and the warnings that came with it.
func (u newUse) verdict(what string, out *unstructured.Unstructured, err error) {
	u.t.Helper()
	warned := u.client.taken()
	feature := server.Namespace + "/" + u.row.gate
	switch {
	case !u.situation.permitted && u.row.rejected:
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), u.row.path) || !strings.Contains(err.Error(), feature) || !strings.Contains(err.Error(), "--feature-gates="+u.row.gate+"=true") {
			u.t.Errorf("%s: got %v, want 422 that names %s, %s and how to turn it on", what, err, u.row.path, feature)
		}
		return
	case err != nil:
		u.t.Errorf("%s: %v", what, err)
		return
	case u.row.has(out) != u.situation.permitted:
		u.t.Errorf("%s: has the field: %t, want %t: %v", what, u.row.has(out), u.situation.permitted, out.Object[u.row.part()])
	}
	if owned := strings.Contains(managed(out), u.row.leaf); owned != u.situation.permitted {
		u.t.Errorf("%s: the field is owned: %t, want %t:\n%s", what, owned, u.situation.permitted, managed(out))
	}
	for _, entry := range out.GetManagedFields() {
		if fields := entry.FieldsV1.GetRawString(); fields == "{}" {
			u.t.Errorf("%s: %s owns nothing", what, entry.Manager)
		}
	}
	if dropped := strings.Contains(warned, u.row.path) && strings.Contains(warned, u.row.gate); dropped == u.situation.permitted {
		u.t.Errorf("%s: the warnings are %q, want one of a drop: %t", what, warned, !u.situation.permitted)
	}
}

// timeless returns the object without what no two writes have in common.
func timeless(obj *unstructured.Unstructured) object {
	out := obj.DeepCopy()
	out.SetResourceVersion("")
	out.SetUID("")
	out.SetCreationTimestamp(metav1.Time{})
	entries := out.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	out.SetManagedFields(entries)
	return out.Object
}
