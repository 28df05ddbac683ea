// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gatedfields_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kube-annex/annex/apis/gatedfield"
	"github.com/kube-annex/annex/featuregate/clearfield"
	"github.com/kube-annex/annex/test/integration/gatedfields/api/v1alpha1"
	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

// entry is what etcd has under a key.
type entry struct {
	value    string
	revision int64
}

func store(t *testing.T, s *server.Server) map[string]entry {
	t.Helper()
	out, err := s.Etcd.Get(t.Context(), s.Prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]entry{}
	for _, kv := range out.Kvs {
		entries[string(kv.Key)] = entry{value: string(kv.Value), revision: kv.ModRevision}
	}
	return entries
}

func fieldAt(t *testing.T, path ...string) gatedfield.Field {
	t.Helper()
	fields := v1alpha1.GatedFields()
	i := slices.IndexFunc(fields, func(f gatedfield.Field) bool { return slices.Equal(f.Path, path) })
	if i < 0 {
		t.Fatalf("no gated field at %v", path)
	}
	return fields[i]
}

func quiet(t *testing.T, s *server.Server) dynamic.NamespaceableResourceInterface {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.WarningHandler = rest.NoWarnings{}
	out, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return out.Resource(server.WidgetResource)
}

var errStopped = errors.New("stopped")

// TestClearField stores objects with and without each field, clears one feature's fields in several goes, and compares what etcd has.
func TestClearField(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gate   string
		fields [][]string
		// gone is what clears, as bytes.
		gone []string
	}{
		"a plain field and one in status": {color, [][]string{{"spec", "color"}, {"status", "summary"}}, []string{"vermilion", "reddish", "f:color", "f:summary"}},
		"fields in lists and maps": {material, [][]string{{"spec", "parts", "[]", "material"}, {"spec", "labelsByZone", "{}", "note"}},
			[]string{"bakelite", "brittle", "f:material", "f:note"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.Options{})
			setStates(t, s, on)
			c := widgetsOf(t, s)
			for i := range 12 {
				for _, r := range []string{"spec.color", "spec.parts[].material", "spec.labelsByZone{}.note", "status.summary"} {
					part := rows[r].without
					if i%2 == 0 {
						part = rows[r].with
					}
					rows[r].create(t, c, fmt.Sprintf("w-%d-%s", i, strings.Map(letters, strings.ToLower(r))), part)
				}
			}
			setState(t, s, tc.gate, turningOff)
			before := store(t, s)
			var had []string
			for key, entry := range before {
				if slices.ContainsFunc(tc.gone, func(text string) bool { return strings.Contains(entry.value, text) }) {
					had = append(had, key)
				}
			}
			if len(had) != 12 {
				t.Fatalf("%d objects have the fields, want 12", len(had))
			}
			cleared := int64(0)
			for _, path := range tc.fields {
				cleared += clearInGoes(t, s, clearfield.Options{Client: quiet(t, s), Field: fieldAt(t, path...), PageSize: 5})
			}
			if cleared != 12 {
				t.Errorf("%d objects were cleared, want 12", cleared)
			}
			after := store(t, s)
			for key, was := range before {
				switch now := after[key]; {
				case !slices.Contains(had, key) && now != was:
					t.Errorf("%s did not have the field and was written", key)
				case slices.Contains(had, key):
					if now.revision == was.revision {
						t.Errorf("%s was not written", key)
					}
					for _, text := range tc.gone {
						if strings.Contains(now.value, text) {
							t.Errorf("%s still has %q", key, text)
						}
					}
				}
			}
			// What users see, and that nothing else is missing, is compared with the same object that never had the field.
			for _, key := range had {
				name := key[strings.LastIndex(key, "/")+1:]
				got := shown(t, c, name)
				index := strings.SplitN(name, "-", 3)
				twin := shown(t, c, "w-1-"+index[2])
				if got != twin {
					t.Errorf("%s:\n%s\nwant what it is without the field:\n%s", name, got, twin)
				}
			}
		})
	}
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return r
	}
	return -1
}

// shown is what kubectl get -o yaml shows, without what is different in any two objects.
func shown(t *testing.T, c client, name string) string {
	t.Helper()
	obj, err := c.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	obj.Object = timeless(obj)
	obj.SetName("")
	obj.SetGeneration(0)
	out, err := yaml.Marshal(obj.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// clearInGoes is stopped after each page and resumed with what it had told by then.
func clearInGoes(t *testing.T, s *server.Server, options clearfield.Options) int64 {
	t.Helper()
	var progress clearfield.Progress
	pages := 0
	options.Progress = func(_ context.Context, now clearfield.Progress) error {
		progress = now
		if pages++; now.Continue != "" {
			return errStopped
		}
		return nil
	}
	for {
		out, err := clearfield.Clear(t.Context(), options, progress)
		if err != nil && !errors.Is(err, errStopped) {
			t.Fatal(err)
		}
		if out != progress {
			t.Errorf("returned progress %+v, told %+v", out, progress)
		}
		if err == nil {
			break
		}
	}
	if pages < 2 || progress.Seen != 48 {
		t.Errorf("saw %d objects on %d pages, want 48 on several", progress.Seen, pages)
	}
	return progress.Cleared
}

// TestClearFieldWhileItIsPermitted clears what the server keeps.
func TestClearFieldWhileItIsPermitted(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Options{})
	setStates(t, s, on)
	rows["spec.color"].create(t, widgetsOf(t, s), "widget", rows["spec.color"].with)
	_, before := raw(t, s, "widget")
	_, err := clearfield.Clear(t.Context(), clearfield.Options{Client: quiet(t, s), Field: fieldAt(t, "spec", "color")}, clearfield.Progress{})
	if !errors.Is(err, clearfield.ErrStillSet) || !strings.Contains(err.Error(), "default/widget") {
		t.Errorf("got %v, want %v about default/widget", err, clearfield.ErrStillSet)
	}
	if stored, after := raw(t, s, "widget"); after != before || !bytes.Contains(stored, []byte("vermilion")) {
		t.Error("it was written nevertheless")
	}
}

// TestClearFieldAmongWriters clears while others write the same objects and replace them.
func TestClearFieldAmongWriters(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Options{})
	setStates(t, s, on)
	c, r := widgetsOf(t, s), rows["spec.color"]
	const objects = 30
	for i := range objects {
		r.create(t, c, fmt.Sprintf("widget-%d", i), r.with)
	}
	setState(t, s, color, turningOff)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprintf("widget-%d", i%objects)
			if i%5 == 0 {
				_ = c.Delete(t.Context(), name, metav1.DeleteOptions{})
			}
			_, _ = c.Patch(t.Context(), name, "application/apply-patch+yaml",
				encode(t, r.body(name, object{"width": int64(i), "color": r.value})), patchOptions(secondWriter, false))
		}
	}()
	_, err := clearfield.Clear(t.Context(), clearfield.Options{Client: quiet(t, s), Field: fieldAt(t, "spec", "color"), PageSize: 3}, clearfield.Progress{})
	close(stop)
	<-stopped
	if err != nil {
		t.Fatal(err)
	}
	for key, entry := range store(t, s) {
		if strings.Contains(entry.value, r.value) {
			t.Errorf("%s still has the field", key)
		}
	}
}
