// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	namespacePath      = "/api/v1/namespaces/annex-system"
	serviceAccountPath = namespacePath + "/serviceaccounts/annex-apiserver"
	secretPath         = namespacePath + "/secrets/annex-apiserver-ca"
	servicePath        = namespacePath + "/services/annex-apiserver"
	roleBindingPath    = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/annex-apiserver"
	// apiServicePath is that of the first APIService. Everything else comes before it.
	apiServicePath = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.features.k8s.io"
)

// TestNothingIsHalfRegistered has the cluster accept everything in the dry run and then refuse an APIService.
func TestNothingIsHalfRegistered(t *testing.T) {
	t.Parallel()
	cluster, client := newTestCluster(t)
	cluster.onApply = func(object string) (int, bool) {
		if object == apiServicePath {
			return http.StatusForbidden, false
		}
		return 0, false
	}
	actions := map[Action]int{}
	err := client.Register(t.Context(), New(), false, func(_ string, action Action, _ string) { actions[action]++ })
	if err == nil || !strings.HasPrefix(err.Error(), "apply apiservice.apiregistration.k8s.io/v1alpha1.features.k8s.io: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("register ended with %v, want the APIService that was refused, and nothing else", err)
	}
	// The cluster has no flow schemas either.
	const schemas = 3
	before := len(New().Objects()) - len(New().APIServices()) - schemas
	if diff := cmp.Diff(map[Action]int{Created: before, Withdrawn: before, Skipped: schemas}, actions); diff != "" {
		t.Errorf("actions (-want,+got):\n%s", diff)
	}
	for object := range cluster.objects {
		t.Errorf("%s was left behind", object)
	}
}

// TestAFailedRunLeavesWhatItHasNotCreated has others write while a run is under way that fails in the end.
func TestAFailedRunLeavesWhatItHasNotCreated(t *testing.T) {
	t.Parallel()
	others := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Any", "metadata": map[string]any{
			"labels": map[string]any{"app.kubernetes.io/managed-by": "annex-register"},
		}}}
	}
	for name, tc := range map[string]struct {
		// at is the object before which others write the objects.
		at      string
		objects []string
		// kept are all that there is in the end, and notes are given for those that were reported as kept.
		kept  []string
		notes map[string]string
	}{
		"a concurrent run is faster with everything": {
			at:      namespacePath,
			objects: []string{namespacePath, serviceAccountPath, secretPath, roleBindingPath, servicePath},
			kept:    []string{namespacePath, serviceAccountPath, secretPath, roleBindingPath, servicePath},
		},
		"a concurrent run is faster within the namespace": {
			at: serviceAccountPath, objects: []string{serviceAccountPath},
			kept:  []string{namespacePath, serviceAccountPath},
			notes: map[string]string{"namespace/annex-system": "it holds serviceaccounts/annex-apiserver"},
		},
		"somebody uses the namespace": {
			at: apiServicePath, objects: []string{namespacePath + "/configmaps/theirs"},
			kept:  []string{namespacePath, namespacePath + "/configmaps/theirs"},
			notes: map[string]string{"namespace/annex-system": "it holds configmaps/theirs"},
		},
		"somebody replaces objects": {
			at: apiServicePath, objects: []string{roleBindingPath},
			kept:  []string{roleBindingPath},
			notes: map[string]string{"clusterrolebinding.rbac.authorization.k8s.io/annex-apiserver": "it was replaced by someone else"},
		},
		"somebody replaces the namespace": {
			at: apiServicePath, objects: []string{namespacePath},
			kept:  []string{namespacePath},
			notes: map[string]string{"namespace/annex-system": "it was replaced by someone else"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, client := newTestCluster(t)
			cluster.onApply = func(object string) (int, bool) {
				if object == tc.at {
					for _, location := range tc.objects {
						cluster.put(location, others())
					}
				}
				if object == apiServicePath {
					return http.StatusForbidden, false
				}
				return 0, false
			}
			notes := map[string]string{}
			err := client.Register(t.Context(), New(), false, func(object string, action Action, note string) {
				if action == Kept {
					notes[object] = note
				}
			})
			if err == nil || !strings.HasPrefix(err.Error(), "apply apiservice.") || strings.Contains(err.Error(), "\n") {
				t.Errorf("register ended with %v, want only the APIService that was refused", err)
			}
			for _, object := range tc.kept {
				if !cluster.has(object) {
					t.Errorf("%s is gone", object)
				}
			}
			if len(cluster.objects) != len(tc.kept) {
				t.Errorf("there are %d objects, want %d", len(cluster.objects), len(tc.kept))
			}
			if tc.notes == nil {
				tc.notes = map[string]string{}
			}
			if diff := cmp.Diff(tc.notes, notes); diff != "" {
				t.Errorf("objects that were kept (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestAnErrorThatLeavesOpenWhetherTheObjectWasCreated has the cluster fail while it applies the service account.
func TestAnErrorThatLeavesOpenWhetherTheObjectWasCreated(t *testing.T) {
	t.Parallel()
	const hint = "serviceaccount/annex-apiserver in namespace annex-system exists now and was left alone, since another run may have created it"
	for name, tc := range map[string]struct {
		status int
		stored bool
		hint   bool
	}{
		"it was created":              {http.StatusGatewayTimeout, true, true},
		"it was not created":          {http.StatusGatewayTimeout, false, false},
		"it was refused":              {http.StatusForbidden, false, false},
		"another run has created it":  {http.StatusForbidden, true, false},
		"the storage does not answer": {http.StatusInternalServerError, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, client := newTestCluster(t)
			cluster.onApply = func(object string) (int, bool) {
				if object == serviceAccountPath {
					return tc.status, tc.stored
				}
				return 0, false
			}
			err := client.Register(t.Context(), New(), false, func(string, Action, string) {})
			if err == nil || strings.Contains(err.Error(), hint) != tc.hint {
				t.Errorf("register ended with %v, want it to name the service account: %t", err, tc.hint)
			}
			// The namespace stays for what is in it.
			if cluster.has(serviceAccountPath) != tc.stored || cluster.has(namespacePath) != tc.stored {
				t.Errorf("the service account is there: %t, and the namespace: %t; want %t",
					cluster.has(serviceAccountPath), cluster.has(namespacePath), tc.stored)
			}
		})
	}
}

// TestWhatOnlyFormerReleasesHaveMadeIsDeleted has a binding that is left of one, and one of the same name that is somebody else's.
func TestWhatOnlyFormerReleasesHaveMadeIsDeleted(t *testing.T) {
	t.Parallel()
	const left = "/apis/rbac.authorization.k8s.io/v1/namespaces/annex-system/rolebindings/annex-apiserver-feature-lifecycle"
	do := map[string]func(*Cluster, bool) error{
		"register": func(c *Cluster, dryRun bool) error {
			return c.Register(t.Context(), New(), dryRun, func(string, Action, string) {})
		},
		"unregister": func(c *Cluster, dryRun bool) error {
			return c.Unregister(t.Context(), New(), dryRun, func(string, Action, string) {})
		},
	}
	for command, run := range do {
		for owner, label := range map[string]string{"ours": "annex-register", "somebody's": "helm"} {
			for _, dryRun := range []bool{true, false} {
				cluster, client := newTestCluster(t)
				cluster.put(left, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{
					"labels": map[string]any{"app.kubernetes.io/managed-by": label},
				}}})
				err := run(client, dryRun)
				if (err != nil) != (command == "unregister" && owner == "somebody's") {
					t.Errorf("%s, %s, dry run %t: %v", command, owner, dryRun, err)
				}
				if want := dryRun || owner == "somebody's"; cluster.has(left) != want {
					t.Errorf("%s, %s, dry run %t: the binding is there: %t, want %t", command, owner, dryRun, !want, want)
				}
			}
		}
	}
}
