// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const town = prefix + "place"

// scene is a ledger, and a state that is as it wants it.
type scene struct {
	*state
	ledger *ledger
}

func newScene() *scene {
	s := &scene{ledger: newLedger("authority", 1), state: &state{
		objects: map[id]*unstructured.Unstructured{}, shown: map[string]map[id]types.UID{"one": {}, "two": {}}, roles: map[string]bool{"one": true, "two": false},
		at: time.Unix(5000, 0),
	}}
	s.ledger.keepIf(namespaces, s.add(namespaces, "Namespace", "", town, map[string]any{"status": map[string]any{"phase": "Active"}}), nil)
	s.add(accounts, "ServiceAccount", town, "default", nil)
	s.add(configMaps, "ConfigMap", town, "kube-root-ca.crt", map[string]any{"data": map[string]any{"ca.crt": "authority"}})
	owner := s.add(configMaps, "ConfigMap", town, "owner", map[string]any{"data": map[string]any{"text": "one"}})
	owned := s.add(secrets, "Secret", town, "owned", nil)
	owned.SetOwnerReferences([]metav1.OwnerReference{{Kind: "ConfigMap", Name: owner.GetName(), UID: owner.GetUID()}})
	s.ledger.keep(configMaps, owner)
	s.ledger.keep(secrets, owned)
	quota := s.add(quotas, "ResourceQuota", town, "quota", map[string]any{
		"spec":   map[string]any{"hard": map[string]any{"secrets": "2", "count/widgets." + group: "1"}},
		"status": map[string]any{"hard": map[string]any{"secrets": "2", "count/widgets." + group: "1"}, "used": map[string]any{"secrets": "1", "count/widgets." + group: "0"}},
	})
	s.ledger.keepIf(quotas, quota, nil)
	lease := s.add(leases, "Lease", "kube-system", "annex-controlplane-one", map[string]any{"spec": map[string]any{
		"renewTime": s.at.Format(metav1.RFC3339Micro), "leaseDurationSeconds": int64(3600),
	}})
	lease.SetLabels(map[string]string{identityLabel: identityValue})
	s.ledger.perhaps(id{resource: "secrets", namespace: town, name: "perhaps"})
	return s
}

// add has an object in etcd, and shown by all replicas.
func (s *scene) add(of schema.GroupVersionResource, kind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	obj := described(of, kind, namespace, name, content)
	obj.SetUID(types.UID("uid-" + name))
	s.objects[idOf(of, obj)] = obj
	for _, shown := range s.shown {
		if where := idOf(of, obj); where.ours() {
			shown[where] = obj.GetUID()
		}
	}
	return obj
}

func (s *scene) remove(where id) {
	delete(s.objects, where)
	for _, shown := range s.shown {
		delete(shown, where)
	}
}

func TestWhatTheLedgerNotices(t *testing.T) {
	t.Parallel()
	at := func(resource, name string) id { return id{resource: resource, namespace: town, name: name} }
	set := func(where id, value any, fields ...string) func(*scene) {
		return func(s *scene) { _ = unstructured.SetNestedField(s.objects[where].Object, value, fields...) }
	}
	lease := id{group: "coordination.k8s.io", resource: "leases", namespace: "kube-system", name: "annex-controlplane-one"}
	for name, tc := range map[string]struct {
		change func(*scene)
		want   string
	}{
		"nothing":                                {func(*scene) {}, ""},
		"what may be there":                      {func(s *scene) { s.add(secrets, "Secret", town, "perhaps", nil); s.use("2") }, ""},
		"an object that is gone":                 {func(s *scene) { s.remove(at("configmaps", "owner")) }, "configmaps " + town + "/owner is gone"},
		"an object that was made anew":           {func(s *scene) { s.add(configMaps, "ConfigMap", town, "owner", nil).SetUID("other") }, "is another one"},
		"an object that was changed":             {set(at("configmaps", "owner"), "two", "data", "text"), "has changed"},
		"a finalizer that was added":             {func(s *scene) { s.objects[at("secrets", "owned")].SetFinalizers([]string{"orphan"}) }, "has changed"},
		"an object that is being deleted":        {func(s *scene) { s.objects[at("secrets", "owned")].SetDeletionTimestamp(&metav1.Time{Time: s.at}) }, "is being deleted"},
		"a reference that was taken away":        {func(s *scene) { s.objects[at("secrets", "owned")].SetOwnerReferences(nil) }, "has the owners []"},
		"a reference that is still there":        {func(s *scene) { s.ledger.letGo(at("secrets", "owned"), "uid-owner") }, "has the owners [uid-owner], want []"},
		"a dependent that is still there":        {func(s *scene) { s.ledger.forget(at("secrets", "owned")) }, "secrets " + town + "/owned should not be there"},
		"a namespace that is still there":        {func(s *scene) { s.ledger.forgetNamespace(town) }, "namespaces /" + town + " should not be there"},
		"an object of a namespace that is gone":  {func(s *scene) { s.add(widgets, "Widget", prefix+"gone", "left", nil) }, "left should not be there"},
		"a namespace that is being emptied":      {set(id{resource: "namespaces", name: town}, "Terminating", "status", "phase"), "is Terminating"},
		"no default account":                     {func(s *scene) { s.remove(at("serviceaccounts", "default")) }, "default is gone"},
		"no authorities":                         {func(s *scene) { s.remove(at("configmaps", "kube-root-ca.crt")) }, "kube-root-ca.crt is gone"},
		"other authorities":                      {set(at("configmaps", "kube-root-ca.crt"), "nobody", "data", "ca.crt"), `holds "nobody"`},
		"a charge for nothing":                   {set(at("resourcequotas", "quota"), "2", "status", "used", "secrets"), "are used, and there are"},
		"no charge":                              {func(s *scene) { s.add(secrets, "Secret", town, "perhaps", nil) }, "are used, and there are"},
		"a quota that nobody has looked at":      {set(at("resourcequotas", "quota"), map[string]any{}, "status"), "its status says map[]"},
		"no leader":                              {func(s *scene) { s.roles["one"] = false }, "0 replicas lead"},
		"two leaders":                            {func(s *scene) { s.roles["two"] = true }, "2 replicas lead"},
		"a replica that shows less":              {func(s *scene) { delete(s.shown["two"], at("secrets", "owned")) }, "two shows secrets"},
		"a replica that shows more":              {func(s *scene) { s.shown["two"][at("secrets", "old")] = "x" }, "which is not in etcd"},
		"a replica without identity":             {func(s *scene) { s.remove(lease) }, "0 replicas have identities, want 1"},
		"an identity that has run out":           {set(lease, time.Unix(0, 0).Format(metav1.RFC3339Micro), "spec", "renewTime"), "has run out"},
		"an identity of a replica there is not":  {func(s *scene) { s.objects[id{resource: "leases", name: "x"}] = s.objects[lease] }, "2 replicas have identities, want 1"},
		"something of the control plane is gone": {func(s *scene) { s.ledger.put(id{resource: "namespaces", name: "default"}, &record{uid: "x"}) }, "namespaces /default is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			tc.change(s)
			found := s.ledger.judge(s.state)
			if tc.want == "" && len(found) > 0 || tc.want != "" && !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, tc.want) }) {
				t.Errorf("found %q, want %q", found, tc.want)
			}
		})
	}
}

// use has the quota charged for so many secrets.
func (s *scene) use(secrets string) {
	quota := s.objects[id{resource: "resourcequotas", namespace: town, name: "quota"}]
	_ = unstructured.SetNestedField(quota.Object, secrets, "status", "used", "secrets")
}

func TestWhatTheChecksNotice(t *testing.T) {
	t.Parallel()
	key, _, err := newRequest("one")
	if err != nil {
		t.Fatal(err)
	}
	object := func(content map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: content}
	}
	status := func(content map[string]any) *unstructured.Unstructured {
		return object(map[string]any{"status": content})
	}
	conditions := func(all ...string) *unstructured.Unstructured {
		var list []any
		for _, one := range all {
			list = append(list, map[string]any{"type": one, "status": "True"})
		}
		return status(map[string]any{"conditions": list})
	}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no certificate, as it should be":                   {isIssued(status(nil), key, false), false},
		"no certificate":                                    {isIssued(status(nil), key, true), true},
		"a certificate for a request that was not approved": {isIssued(status(map[string]any{"certificate": "eA=="}), key, false), true},
		"a certificate that is none":                        {isIssued(status(map[string]any{"certificate": "eA=="}), key, true), true},
		"a token secret with nothing":                       {isFilled(object(nil)), true},
		"a token secret with a part":                        {isFilled(object(map[string]any{"data": map[string]any{"token": "x", "namespace": "x"}})), true},
		"a token secret":                                    {isFilled(object(map[string]any{"data": map[string]any{"token": "x", "ca.crt": "x", "namespace": "x"}})), false},
		"a migration that nobody has begun":                 {hasSucceeded(status(nil)), true},
		"a migration that is running":                       {hasSucceeded(conditions("Running")), true},
		"a migration that has failed":                       {hasSucceeded(conditions("Failed")), true},
		"a migration that has ended":                        {hasSucceeded(conditions("Succeeded")), false},
		"an object in the old version":                      {isInVersion("v2")(object(map[string]any{"apiVersion": group + "/v1"})), true},
		"a policy that was not checked":                     {isChecked(object(map[string]any{"metadata": map[string]any{"generation": int64(1)}}), 1, false), true},
	} {
		if (tc.err != nil) != tc.want {
			t.Errorf("%s: got %v, want an error: %t", name, tc.err, tc.want)
		}
	}
}

// TestWhoGoesWithTheOwners compares with families that were thought through by hand.
func TestWhoGoesWithTheOwners(t *testing.T) {
	t.Parallel()
	family := func(deleted int, owners ...[]int) []*member {
		var members []*member
		for i, of := range owners {
			members = append(members, &member{owners: of, deleted: i == deleted})
		}
		return members
	}
	for name, tc := range map[string]struct {
		members []*member
		orphan  bool
		want    []bool
	}{
		"a chain":                {family(0, nil, []int{0}, []int{1}), false, []bool{true, true, true}},
		"a chain, from within":   {family(1, nil, []int{0}, []int{1}), false, []bool{false, true, true}},
		"orphans":                {family(0, nil, []int{0}, []int{1}), true, []bool{true, false, false}},
		"another owner":          {family(0, nil, nil, []int{0, 1}, []int{2}), false, []bool{true, false, false, false}},
		"two ways from the same": {family(0, nil, []int{0}, []int{0, 1}), false, []bool{true, true, true}},
	} {
		if got := gone(tc.members, tc.orphan); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestWhatTheHistoryNotices(t *testing.T) {
	t.Parallel()
	write := func(key string, content map[string]any) *clientv3.Event {
		if content == nil {
			content = map[string]any{}
		}
		content["apiVersion"], content["kind"] = "v1", "X"
		value, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		return &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{Key: []byte(objectKeys + key), Value: value}}
	}
	made := func(key string, content map[string]any) *clientv3.Event {
		event := write(key, content)
		event.Kv.CreateRevision, event.Kv.ModRevision = 1, 1
		return event
	}
	gone := func(key string) *clientv3.Event {
		return &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(objectKeys + key)}}
	}
	quota := func(used string) map[string]any {
		return map[string]any{"spec": map[string]any{"hard": map[string]any{"secrets": "1"}}, "status": map[string]any{"used": map[string]any{"secrets": used}}}
	}
	request := func(condition, certificate string) map[string]any {
		return map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": condition}}, "certificate": certificate}}
	}
	for name, tc := range map[string]struct {
		events []*clientv3.Event
		want   int
	}{
		"one at a time":                   {[]*clientv3.Event{made("core/resourcequotas/a/q", quota("0")), made("core/secrets/a/x", nil), gone("core/secrets/a/x"), made("core/secrets/a/y", nil)}, 0},
		"one too many":                    {[]*clientv3.Event{made("core/resourcequotas/a/q", quota("0")), made("core/secrets/a/x", nil), made("core/secrets/a/y", nil), gone("core/secrets/a/x")}, 1},
		"in other namespaces":             {[]*clientv3.Event{made("core/resourcequotas/a/q", quota("0")), made("core/secrets/a/x", nil), made("core/secrets/b/y", nil)}, 0},
		"after the quota":                 {[]*clientv3.Event{made("core/resourcequotas/a/q", quota("0")), gone("core/resourcequotas/a/q"), made("core/secrets/a/x", nil), made("core/secrets/a/y", nil)}, 0},
		"too much used":                   {[]*clientv3.Event{made("core/resourcequotas/a/q", quota("0")), write("core/resourcequotas/a/q", quota("2"))}, 1},
		"too little used":                 {[]*clientv3.Event{made("core/resourcequotas/a/q", quota("0")), made("core/secrets/a/x", nil), write("core/resourcequotas/a/q", quota("0"))}, 1},
		"a certificate":                   {[]*clientv3.Event{made("certificates.k8s.io/certificatesigningrequests/x", request("Approved", "")), write("certificates.k8s.io/certificatesigningrequests/x", request("Approved", "one"))}, 0},
		"a certificate after all":         {[]*clientv3.Event{made("certificates.k8s.io/certificatesigningrequests/x", request("Denied", "one"))}, 1},
		"another certificate than before": {[]*clientv3.Event{made("certificates.k8s.io/certificatesigningrequests/x", request("Approved", "one")), write("certificates.k8s.io/certificatesigningrequests/x", request("Approved", "two"))}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := newDecoder()
			if err != nil {
				t.Fatal(err)
			}
			h := newHistory(d, 0)
			for i, event := range tc.events {
				if event.IsCreate() {
					event.Kv.CreateRevision = int64(i) + 2
				}
				event.Kv.ModRevision = int64(i) + 2
			}
			if err := h.Play(tc.events, h.step); err != nil {
				t.Fatal(err)
			}
			if found := h.Violations(); len(found) != tc.want {
				t.Errorf("found %q, want %d", found, tc.want)
			}
		})
	}
}
