// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
)

// TestWhenKindsAreAskedForAgain looks at the requests of a mapper for a kind that appears, and for one that stays, in a bubble.
func TestWhenKindsAreAskedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		client.Resources = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Verbs: metav1.Verbs{"get"}}}}}
		mapper := newLearningMapper(client.Discovery())
		find := func(when string, kind schema.GroupKind, found, asked bool) {
			t.Helper()
			before := len(client.Actions())
			_, err := mapper.RESTMapping(kind)
			if (err == nil) != found || (len(client.Actions()) > before) != asked {
				t.Errorf("%s: %s: %v after %d requests; want it found: %t, asked for: %t", when, kind, err, len(client.Actions())-before, found, asked)
			}
		}
		secret, widget := schema.GroupKind{Kind: "Secret"}, schema.GroupKind{Group: "example.com", Kind: "Widget"}
		find("at first", secret, true, true)
		find("at once again", secret, true, false)
		find("at once", widget, false, false)
		time.Sleep(unknownKindRecheck - time.Millisecond) //nolint:forbidigo // in a bubble, it takes no time
		client.Resources = append(client.Resources, &metav1.APIResourceList{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Verbs: metav1.Verbs{"get"}}}})
		find("just before half a second has passed", widget, false, false)
		time.Sleep(time.Millisecond) //nolint:forbidigo // in a bubble, it takes no time
		find("after half a second", widget, true, true)
		time.Sleep(knownKindsRecheck - time.Millisecond) //nolint:forbidigo // in a bubble, it takes no time
		find("just before 30 s have passed", widget, true, false)
		time.Sleep(time.Millisecond) //nolint:forbidigo // in a bubble, it takes no time
		find("after 30 s", secret, true, true)
	})
}
