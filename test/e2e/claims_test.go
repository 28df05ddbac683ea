// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	claimsclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/multicluster/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
)

const idClaim, setClaim = v1alpha1.ClaimID, v1alpha1.ClaimClusterSet

// TestClusterClaims is about what claims may be called, what they may say, and who may write and see which.
func TestClusterClaims(t *testing.T) {
	unregisterAtEnd(t)
	a := startAnnex(t)
	t.Run("together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *annex){
			"reserved names need the verb reserve": reservedNamesNeedTheVerb,
			"values have up to 131072 bytes":       valuesHaveALimit,
			"bad values are refused as they are":   badValuesAreRefused,
			"rights are per claim":                 rightsArePerClaim,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, a)
			})
		}
	})
	t.Run("watchers see each change of a well-known claim once, in order", wellKnownClaimsAreWatched)
}

func claimsOf(t *testing.T, config *rest.Config) claimsclient.ClusterClaimInterface {
	t.Helper()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.MulticlusterV1alpha1().ClusterClaims()
}

func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + name}
}

// encodings are the clients of each.
func encodings(t *testing.T) map[string]claimsclient.ClusterClaimInterface {
	t.Helper()
	all := map[string]claimsclient.ClusterClaimInterface{}
	for name, contentType := range map[string]string{"json": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		config := rest.CopyConfig(host.Config)
		config.ContentType = contentType
		all[name] = claimsOf(t, config)
	}
	return all
}

func valuesHaveALimit(t *testing.T, _ *annex) {
	for encoding, claims := range encodings(t) {
		for kind, value := range map[string]string{
			"one": strings.Repeat("x", 131072), "two": strings.Repeat("é", 65536),
			"three": strings.Repeat("日", 43690) + "xx", "four": strings.Repeat("🎈", 32768),
		} {
			name := kind + "." + encoding + ".example.com"
			if _, err := claims.Create(t.Context(), claim(name, value), metav1.CreateOptions{}); err != nil {
				t.Errorf("%s: 131072 bytes: %v", name, err)
				continue
			}
			if got, err := claims.Get(t.Context(), name, metav1.GetOptions{}); err != nil || got.Spec.Value != value {
				t.Errorf("%s: what was stored is not what was sent (%v)", name, err)
			}
			_, err := claims.Create(t.Context(), claim("over."+name, value+"x"), metav1.CreateOptions{})
			wantRefused(t, name+" and a byte", err, "must be at most 131072 bytes; this value has 131073")
			_, err = claims.Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"value":%q}}`, value+"x"), metav1.PatchOptions{})
			wantRefused(t, name+" and a byte, patched", err, "this value has 131073")
		}
	}
}

// wantRefused wants a 422 for the value that says something.
func wantRefused(t *testing.T, what string, err error, says string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want 422 that says %q", what, err, says)
		return
	}
	if causes := status.Status().Details.Causes; len(causes) != 1 || causes[0].Field != "spec.value" {
		t.Errorf("%s: causes %v, want one at spec.value", what, causes)
	}
}

func badValuesAreRefused(t *testing.T, a *annex) {
	const other = "bad.example.com"
	bad := map[string]struct{ name, value, says string }{
		"empty":                       {other, "", "must be 1 to 131072 bytes"},
		"U+FFFD":                      {other, "ab\uFFFDc", "must not contain the replacement character U+FFFD, which is at byte offset 2"},
		"empty id":                    {idClaim, "", "must be 1 to 131072 bytes"},
		"id of 64 bytes":              {idClaim, strings.Repeat("x", 64), "must be no more than 63 characters"},
		"id with capitals":            {idClaim, "Cluster-1", "is not a cluster id"},
		"id with a dot":               {idClaim, "cluster.1", "is not a cluster id: must not contain dots"},
		"id that ends with a newline": {idClaim, "cluster-1\n", "ends with a newline, which a cluster id cannot contain; send it without"},
		"id from a Windows file":      {idClaim, "cluster-1\r\n", "ends with a newline"},
		"id that begins with a blank": {idClaim, " cluster-1", "is not a cluster id"},
		"id that is not ASCII":        {idClaim, "clüster", "is not a cluster id"},
		"set of 254 bytes":            {setClaim, strings.Repeat("a.", 126) + "aa", "must be no more than 253 characters"},
		"set with a newline":          {setClaim, "fleet\n", "ends with a newline, which the name of a cluster set cannot contain"},
	}
	for encoding, claims := range encodings(t) {
		for what, tc := range bad {
			_, err := claims.Create(t.Context(), claim(tc.name, tc.value), metav1.CreateOptions{})
			wantRefused(t, what+" as "+encoding, err, tc.says)
		}
	}
	claims := encodings(t)
	_, err := claims["protobuf"].Create(t.Context(), claim(other, "ab\xffc"), metav1.CreateOptions{})
	wantRefused(t, "invalid UTF-8 as protobuf", err, "must be valid UTF-8; the byte at offset 2 is not")
	// Decoders of JSON and YAML put the replacement character in the place of what they cannot read.
	for contentType, body := range map[string]string{
		runtime.ContentTypeJSON: `{"apiVersion":"multicluster.k8s.io/v1alpha1","kind":"ClusterClaim","metadata":{"name":"bad.example.com"},"spec":{"value":"ab` + "\xff" + `c"}}`,
		"application/json; x=y": `{"apiVersion":"multicluster.k8s.io/v1alpha1","kind":"ClusterClaim","metadata":{"name":"bad.example.com"},"spec":{"value":"ab\ud800c"}}`,
	} {
		err := a.client.MulticlusterV1alpha1().RESTClient().Post().Resource("clusterclaims").SetHeader("Content-Type", contentType).
			SetHeader("Accept", runtime.ContentTypeJSON).Body([]byte(body)).Do(t.Context()).Error()
		wantRefused(t, "invalid UTF-8 as "+contentType, err, "U+FFFD, which is at byte offset 2")
	}

	// What is stored stays as it was. A value that is not well-known keeps its newline.
	if _, err := claims["json"].Create(t.Context(), claim(other, "good\n"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for patch, says := range map[string]string{
		`{"spec":{"value":""}}`: "must be 1 to 131072 bytes", `{"spec":{"value":null}}`: "must be 1 to 131072 bytes",
		`{"spec":{"value":"a` + "\xff" + `"}}`: "U+FFFD, which is at byte offset 1", `{"spec":{"value":"\udc00"}}`: "U+FFFD, which is at byte offset 0",
	} {
		_, err := claims["json"].Patch(t.Context(), other, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		wantRefused(t, "patch "+patch, err, says)
	}
	if got, err := claims["json"].Get(t.Context(), other, metav1.GetOptions{}); err != nil || got.Spec.Value != "good\n" {
		t.Errorf("after bad patches there is %v (%v)", got, err)
	}

	// In YAML, a value on lines of its own ends with a newline.
	kubectl := framework.NewKubectl(t, root, host.Kubeconfig)
	file := filepath.Join(t.TempDir(), "claim.yaml")
	yaml := "apiVersion: multicluster.k8s.io/v1alpha1\nkind: ClusterClaim\nmetadata:\n  name: id.k8s.io\nspec:\n  value: |\n    cluster-1\n"
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl.WantError(t, `spec\.value: Invalid value: .*ends with a newline, which a cluster id cannot contain; send it without`, "create", "-f", file)
	for _, name := range []string{idClaim, setClaim} {
		if _, err := claims["json"].Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s after bad values: %v, want none", name, err)
		}
	}
}

// wellKnownClaimsAreWatched has people who may read nothing else watch each of the claims, and an administrator both.
func wellKnownClaimsAreWatched(t *testing.T) {
	const watchers = 5
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	admin, somebody := claimsOf(t, host.Config), identity(t, "watcher")
	before, err := admin.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var watching sync.WaitGroup
	seen := map[string]*[watchers][]string{idClaim: {}, setClaim: {}, "": {}}
	for name, all := range seen {
		claims, options := somebody, named(name)
		if name == "" {
			claims, options = admin, metav1.ListOptions{}
		}
		options.ResourceVersion = before.ResourceVersion
		for i := range watchers {
			events, err := claims.Watch(ctx, options)
			if err != nil {
				t.Fatal(err)
			}
			watching.Go(func() {
				defer events.Stop()
				for event := range events.ResultChan() {
					got, ok := event.Object.(*v1alpha1.ClusterClaim)
					if !ok {
						all[i] = append(all[i], fmt.Sprintf("%s %T", event.Type, event.Object))
						return
					}
					all[i] = append(all[i], fmt.Sprintf("%s %s %s %s", got.Name, event.Type, got.Spec.Value, got.Labels["step"]))
					// The last of each is gone at the end.
					if event.Type == watch.Deleted && (got.Spec.Value == "last" || name == setClaim && got.Spec.Value == "second") {
						return
					}
				}
			})
		}
	}

	var want []string
	step := func(name string, event watch.EventType, value, label string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s of %s: %v", event, name, err)
		}
		want = append(want, fmt.Sprintf("%s %s %s %s", name, event, value, label))
	}
	create := func(name, value string) {
		t.Helper()
		_, err := admin.Create(ctx, claim(name, value), metav1.CreateOptions{})
		step(name, watch.Added, value, "", err)
	}
	change := func(name, value string) error {
		_, err := admin.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"value":%q}}`, value), metav1.PatchOptions{})
		return err
	}
	refused := func(err error) {
		t.Helper()
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want a refusal", err)
		}
	}
	remove := func(name string) error { return admin.Delete(ctx, name, metav1.DeleteOptions{}) }
	_, err = admin.Create(ctx, claim(setClaim, "first"), metav1.CreateOptions{})
	refused(err)
	create(idClaim, "one")
	step(idClaim, watch.Modified, "two", "", change(idClaim, "two"))
	create(setClaim, "first")
	refused(change(idClaim, "three"))
	refused(change(setClaim, "other"))
	refused(remove(idClaim))
	_, err = admin.Patch(ctx, idClaim, types.MergePatchType, []byte(`{"metadata":{"labels":{"step":"joined"}}}`), metav1.PatchOptions{})
	step(idClaim, watch.Modified, "two", "joined", err)
	// What changes nothing is no change.
	if err := change(idClaim, "two"); err != nil {
		t.Error(err)
	}
	step(setClaim, watch.Deleted, "first", "", remove(setClaim))
	step(idClaim, watch.Modified, "last", "joined", change(idClaim, "last"))
	create(setClaim, "second")
	step(setClaim, watch.Deleted, "second", "", remove(setClaim))
	step(idClaim, watch.Deleted, "last", "joined", remove(idClaim))

	watching.Wait()
	for name, all := range seen {
		wanted := slices.DeleteFunc(slices.Clone(want), func(line string) bool { return !strings.HasPrefix(line, name) })
		for i := range watchers {
			if diff := cmp.Diff(wanted, all[i]); diff != "" {
				t.Errorf("watcher %d of %q (-want,+got):\n%s", i, name, diff)
			}
		}
	}
}
