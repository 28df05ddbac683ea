// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// objectKeys is where a control plane's objects are in etcd.
const objectKeys = "/registry/"

// state is everything that there is at a moment.
type state struct {
	// objects are those in etcd.
	objects map[id]*unstructured.Unstructured
	// shown are the objects of stories that each replica lists.
	shown map[string]map[id]types.UID
	// roles says of each replica whether it leads.
	roles map[string]bool
	at    time.Time
}

// decoder makes sense of what is stored.
type decoder struct{ native runtime.Decoder }

func newDecoder() (*decoder, error) {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(all); err != nil {
			return nil, err
		}
	}
	return &decoder{serializer.NewCodecFactory(all).UniversalDeserializer()}, nil
}

// decode also takes JSON, which custom resources and objects of the extension libraries are stored as.
func (d *decoder) decode(value []byte) (*unstructured.Unstructured, error) {
	if bytes.HasPrefix(value, []byte("k8s\x00")) {
		object, kind, err := d.native.Decode(value, nil, nil)
		if err != nil {
			return nil, err
		}
		object.GetObjectKind().SetGroupVersionKind(*kind)
		if value, err = json.Marshal(object); err != nil {
			return nil, err
		}
	}
	decoded := &unstructured.Unstructured{}
	return decoded, decoded.UnmarshalJSON(value)
}

// place returns whose key it is: /registry/<group>/<resource>/[<namespace>/]<name>.
func place(key string) (id, bool) {
	parts := strings.Split(strings.TrimPrefix(key, objectKeys), "/")
	if len(parts) < 3 || len(parts) > 4 || !strings.HasPrefix(key, objectKeys) {
		return id{}, false
	}
	where := id{group: parts[0], resource: parts[1], name: parts[len(parts)-1]}
	if where.group == "core" {
		where.group = ""
	}
	if len(parts) == 4 {
		where.namespace = parts[2]
	}
	return where, true
}

// look reads all of etcd, asks each replica for what stories make, and who leads.
func (w *world) look(ctx context.Context, d *decoder) (*state, error) {
	now := &state{objects: map[id]*unstructured.Unstructured{}, shown: map[string]map[id]types.UID{}, roles: map[string]bool{}, at: time.Now()}
	stored, err := w.etcd.Get(ctx, objectKeys, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read etcd: %w", err)
	}
	for _, pair := range stored.Kvs {
		where, ok := place(string(pair.Key))
		if !ok {
			continue
		}
		if now.objects[where], err = d.decode(pair.Value); err != nil {
			return nil, fmt.Errorf("what is stored at %s: %w", pair.Key, err)
		}
	}
	for _, r := range w.replicas {
		if now.roles[r.name], err = r.leads(ctx); err != nil {
			return nil, err
		}
		if now.shown[r.name], err = r.list(ctx); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// list asks for all kinds that stories make.
func (r *replica) list(ctx context.Context) (map[id]types.UID, error) {
	ready := r.ready.Load()
	if ready == nil {
		return nil, fmt.Errorf("%s is not ready", r.name)
	}
	shown := map[id]types.UID{}
	for _, of := range storyKinds() {
		list, err := ready.dynamic.Resource(of).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s at %s: %w", of.Resource, r.name, err)
		}
		for i := range list.Items {
			if where := idOf(of, &list.Items[i]); where.ours() {
				shown[where] = list.Items[i].GetUID()
			}
		}
	}
	return shown, nil
}

// judge returns what is wrong whatever stories have done.
func (s *state) judge(replicas int) (findings []string) {
	leaders := 0
	for _, leads := range s.roles {
		if leads {
			leaders++
		}
	}
	if leaders != 1 {
		findings = append(findings, fmt.Sprintf("%d replicas lead: %v", leaders, s.roles))
	}
	kinds := map[schema.GroupResource]bool{}
	for _, of := range storyKinds() {
		kinds[of.GroupResource()] = true
	}
	stored := map[id]types.UID{}
	for where, obj := range s.objects {
		if where.ours() && kinds[schema.GroupResource{Group: where.group, Resource: where.resource}] {
			stored[where] = obj.GetUID()
		}
	}
	for _, replica := range slices.Sorted(maps.Keys(s.shown)) {
		for where, uid := range stored {
			if s.shown[replica][where] != uid {
				findings = append(findings, fmt.Sprintf("%s shows %s with the uid %q, and etcd has %q", replica, where, s.shown[replica][where], uid))
			}
		}
		for where := range s.shown[replica] {
			if _, ok := stored[where]; !ok {
				findings = append(findings, fmt.Sprintf("%s shows %s, which is not in etcd", replica, where))
			}
		}
	}
	return append(findings, append(s.judgeIdentities(replicas), s.judgeQuotas()...)...)
}

// judgeIdentities wants one Lease of each replica, and none that has run out.
func (s *state) judgeIdentities(replicas int) (findings []string) {
	number := 0
	for where, obj := range s.objects {
		if where.resource != "leases" || obj.GetLabels()[identityLabel] != identityValue {
			continue
		}
		number++
		renewed, _, _ := unstructured.NestedString(obj.Object, "spec", "renewTime")
		seconds, _, _ := unstructured.NestedInt64(obj.Object, "spec", "leaseDurationSeconds")
		if at, err := time.Parse(time.RFC3339, renewed); err != nil || at.Add(time.Duration(seconds)*time.Second).Before(s.at) {
			findings = append(findings, fmt.Sprintf("%s has run out, renewed at %s", where, renewed))
		}
	}
	if number != replicas {
		findings = append(findings, fmt.Sprintf("%d replicas have identities, want %d", number, replicas))
	}
	return findings
}

// judgeQuotas wants what is used to be what is there.
func (s *state) judgeQuotas() (findings []string) {
	numbers := map[id]int64{}
	for where := range s.objects {
		where.name = ""
		numbers[where]++
	}
	for where, obj := range s.objects {
		if where.group != "" || where.resource != "resourcequotas" {
			continue
		}
		hard, used := amounts(obj, "spec", "hard"), amounts(obj, "status", "used")
		if counted := amounts(obj, "status", "hard"); !maps.Equal(counted, hard) {
			findings = append(findings, fmt.Sprintf("%s is %v, and its status says %v", where, hard, counted))
		}
		want := map[string]int64{}
		for name := range hard {
			want[name] = numbers[limited(where.namespace, name)]
		}
		if !maps.Equal(used, want) {
			findings = append(findings, fmt.Sprintf("%s says that %v are used, and there are %v", where, used, want))
		}
	}
	return findings
}

// limited is what a name in a quota counts, without a name.
func limited(namespace, name string) id {
	kind := schema.ParseGroupResource(strings.TrimPrefix(name, "count/"))
	return id{group: kind.Group, resource: kind.Resource, namespace: namespace}
}
