// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// claimsWorld is a cluster with both kinds, and the commands in front of it.
type claimsWorld struct {
	*frontDoor
	t          *testing.T
	binary     string
	kubeconfig string
}

// newClaimsWorld has the commands run as an administrator.
func newClaimsWorld(t *testing.T, configure ...func(*standalone.Options)) *claimsWorld {
	t.Helper()
	w := &claimsWorld{frontDoor: startFrontDoor(t, configure...), t: t, binary: framework.Annex(t, root)}
	w.kubeconfig = w.Kubeconfig
	return w
}

var (
	claimResource    = schema.GroupVersionResource{Group: "multicluster.k8s.io", Version: "v1alpha1", Resource: "clusterclaims"}
	propertyResource = schema.GroupVersionResource{Group: "about.k8s.io", Version: "v1alpha1", Resource: "clusterproperties"}
)

// serveProperties installs about.k8s.io.
func (w *claimsWorld) serveProperties() {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "clusterproperties.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, definition); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.APIExtensions.ApiextensionsV1().CustomResourceDefinitions().Create(w.t.Context(), definition, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	poll.Eventually(w.t, time.Minute, "about.k8s.io is served and discovered", func(ctx context.Context) error {
		if _, err := w.Dynamic.Resource(propertyResource).List(ctx, metav1.ListOptions{}); err != nil {
			return err
		}
		list, err := w.Kubernetes.Discovery().ServerResourcesForGroupVersion("about.k8s.io/v1alpha1")
		if err != nil {
			return err
		}
		return poll.Want(len(list.APIResources) > 0, "no resources")
	})
}

// run runs `annex claims` and checks the exit code and that the output has the lines.
func (w *claimsWorld) run(stdin string, code int, args []string, lines ...string) (stdout string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, w.binary, append([]string{"claims"}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig)
	var out, errs bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &out, &errs
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || command.ProcessState.ExitCode() != code {
		w.t.Fatalf("annex claims %s: %v, want exit code %d; it said:\n%.4000s\n%.4000s", strings.Join(args, " "), err, code, out.String(), errs.String())
	}
	said := out.String() + errs.String()
	for _, line := range lines {
		if !strings.Contains(said, line) {
			w.t.Errorf("annex claims %s does not say %q:\n%.4000s", strings.Join(args, " "), line, said)
		}
	}
	if code != 0 && !strings.HasPrefix(lastLine(errs.String()), "annex: ") {
		w.t.Errorf("annex claims %s ends without a line that begins with annex:\n%s", strings.Join(args, " "), errs.String())
	}
	return out.String()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1]
}

// taken is what has to survive of an object.
type taken struct {
	Value               string
	Labels, Annotations map[string]string
}

func (w *claimsWorld) put(resource schema.GroupVersionResource, name string, object taken) {
	w.t.Helper()
	kind := map[string]string{"clusterclaims": "ClusterClaim", "clusterproperties": "ClusterProperty"}[resource.Resource]
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"value": object.Value}}}
	made.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	made.SetName(name)
	made.SetLabels(object.Labels)
	made.SetAnnotations(object.Annotations)
	if _, err := w.Dynamic.Resource(resource).Create(w.t.Context(), made, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// all returns what there is of a kind, and the resourceVersions.
func (w *claimsWorld) all(resource schema.GroupVersionResource) (objects map[string]taken, versions map[string]string) {
	w.t.Helper()
	list, err := w.Dynamic.Resource(resource).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	objects, versions = map[string]taken{}, map[string]string{}
	for _, object := range list.Items {
		value, _, _ := unstructured.NestedString(object.Object, "spec", "value")
		objects[object.GetName()] = taken{value, object.GetLabels(), object.GetAnnotations()}
		versions[object.GetName()] = object.GetResourceVersion()
	}
	return objects, versions
}

func (w *claimsWorld) remove(resource schema.GroupVersionResource) {
	w.t.Helper()
	objects, _ := w.all(resource)
	names := []string{"clusterset.k8s.io"} // the set goes before the id
	for name := range objects {
		names = append(names, name)
	}
	for i, name := range names {
		if _, there := objects[name]; !there || slices.Index(names, name) != i {
			continue
		}
		if err := w.Dynamic.Resource(resource).Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func wantObjects(t *testing.T, what string, want, got map[string]taken) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want,+got):\n%.4000s", what, diff)
	}
}

var (
	importArgs = []string{"import"}
	exportArgs = []string{"export"}
)

func TestClaimsThereAndBack(t *testing.T) {
	t.Parallel()
	w := newClaimsWorld(t)
	w.run("", 1, importArgs, "serves no clusterproperties.about.k8s.io; install their CustomResourceDefinition, or use files")
	w.run("", 1, exportArgs, "serves no clusterproperties.about.k8s.io")
	w.serveProperties()
	properties := map[string]taken{
		"cluster.clusterset.k8s.io": {Value: "cluster-1", Labels: map[string]string{"a": "b"}},
		"clusterset.k8s.io":         {Value: "fleet.example", Annotations: map[string]string{"example.com/note": "two\nlines "}},
		"region.example.com":        {Value: " eu\r\n", Labels: map[string]string{"x": ""}},
		"large.example.com":         {Value: strings.Repeat("日", 43690) + "xx"}, // 131072 bytes
	}
	for name, property := range properties {
		w.put(propertyResource, name, property)
	}
	claims := map[string]taken{}
	for name, property := range properties {
		claims[strings.Replace(name, "cluster.clusterset.k8s.io", "id.k8s.io", 1)] = property
	}

	w.run("", 0, []string{"import", "--dry-run"}, "clusterclaim.multicluster.k8s.io/id.k8s.io created: from cluster.clusterset.k8s.io (dry run)\n", "/clusterset.k8s.io created (dry run)\n")
	got, _ := w.all(claimResource)
	wantObjects(t, "claims after a dry run", map[string]taken{}, got)
	w.run("", 0, importArgs, "/id.k8s.io created: from cluster.clusterset.k8s.io\n", "/clusterset.k8s.io created\n", "/large.example.com created\n")
	got, before := w.all(claimResource)
	wantObjects(t, "claims after the import", claims, got)
	w.run("", 0, importArgs, "/id.k8s.io unchanged: from", "/clusterset.k8s.io unchanged\n", "/region.example.com unchanged\n")
	w.run("", 0, []string{"import", "--overwrite"}, "/id.k8s.io unchanged: from")
	if _, after := w.all(claimResource); !cmp.Equal(before, after) {
		t.Errorf("a second import has changed something (-before,+after):\n%s", cmp.Diff(before, after))
	}

	// Out to a file, all gone, and in again.
	for _, format := range []string{"yaml", "json"} {
		file := w.run("", 0, []string{"export", "-o", format})
		w.remove(claimResource)
		w.run(file, 0, []string{"import", "-f", "-"}, "/id.k8s.io created", "/clusterset.k8s.io created")
		got, _ = w.all(claimResource)
		wantObjects(t, "claims after there and back in "+format, claims, got)
	}
	table := w.run("", 0, []string{"import", "-o", "table"})
	if !strings.Contains(table, "id.k8s.io            cluster.clusterset.k8s.io   cluster-1\n") {
		t.Errorf("the table is:\n%.1000s", table)
	}

	// Out to the cluster, where both kinds are as they were.
	w.remove(propertyResource)
	w.put(claimResource, "bytes.example.com", taken{Value: strings.Repeat("x", 131072)})
	w.run("", 1, exportArgs, "clusterproperty.about.k8s.io/cluster.clusterset.k8s.io created: from id.k8s.io\n", "/bytes.example.com refused: spec.value: Too long", "1 of 5 ClusterProperties were refused")
	got, before = w.all(propertyResource)
	wantObjects(t, "properties after the export", properties, got)
	w.run("", 1, exportArgs, "/cluster.clusterset.k8s.io unchanged", "/region.example.com unchanged\n")
	if _, after := w.all(propertyResource); !cmp.Equal(before, after) {
		t.Errorf("a second export has changed something (-before,+after):\n%s", cmp.Diff(before, after))
	}
}

func TestClaimsThatAreThereStay(t *testing.T) {
	t.Parallel()
	w := newClaimsWorld(t)
	w.serveProperties()
	w.put(propertyResource, "cluster.clusterset.k8s.io", taken{Value: "cluster-1"})
	w.put(propertyResource, "clusterset.k8s.io", taken{Value: "fleet-1"})
	w.put(propertyResource, "region", taken{Value: "eu", Labels: map[string]string{"a": "1", "b": "2"}})
	patch := func(name, patch string) {
		t.Helper()
		if _, err := w.Dynamic.Resource(claimResource).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	// Another id: the set is not joined under it, and the rest is done.
	w.put(claimResource, "id.k8s.io", taken{Value: "other"})
	w.run("", 1, importArgs, `/id.k8s.io refused: from cluster.clusterset.k8s.io: it is there, and its value is "other" and not "cluster-1"; --overwrite replaces that`,
		"/clusterset.k8s.io refused: cluster.clusterset.k8s.io was refused, and the set is not taken without the id", "/region created\n", "annex: 2 of 3 ClusterClaims were refused")
	got, _ := w.all(claimResource)
	wantObjects(t, "claims", map[string]taken{"id.k8s.io": {Value: "other"}, "region": {Value: "eu", Labels: map[string]string{"a": "1", "b": "2"}}}, got)

	// In a set, nothing changes the id, and nothing ends the membership.
	w.put(claimResource, "clusterset.k8s.io", taken{Value: "fleet-2"})
	w.run("", 1, []string{"import", "--overwrite"}, `/id.k8s.io refused: from cluster.clusterset.k8s.io: spec.value: Forbidden: the id cannot change while the cluster is a member of the set "fleet-2"; leave the set first`, "/clusterset.k8s.io refused")
	patch("id.k8s.io", `{"metadata":{"labels":{"mine":"x"}}}`)
	if err := w.Dynamic.Resource(propertyResource).Delete(t.Context(), "cluster.clusterset.k8s.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.run("", 1, []string{"import", "--overwrite"}, `/clusterset.k8s.io refused: the cluster is a member of "fleet-2", and an import does not end that; to join "fleet-1", leave first by deleting the ClusterClaim clusterset.k8s.io`)
	got, _ = w.all(claimResource)
	wantObjects(t, "claims of the member", map[string]taken{"id.k8s.io": {Value: "other", Labels: map[string]string{"mine": "x"}}, "clusterset.k8s.io": {Value: "fleet-2"}, "region": {Value: "eu", Labels: map[string]string{"a": "1", "b": "2"}}}, got)

	// Once it has left, what the user wants replaced is; what is besides stays.
	if err := w.Dynamic.Resource(claimResource).Delete(t.Context(), "clusterset.k8s.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.put(propertyResource, "cluster.clusterset.k8s.io", taken{Value: "cluster-1"})
	patch("region", `{"spec":{"value":"us"},"metadata":{"labels":{"a":"9","b":null,"c":"3"},"finalizers":["example.com/x"]}}`)
	w.run("", 1, importArgs, `/region refused: it is there, and its value is "us" and not "eu", its label a is "9" and not "1"; --overwrite replaces that`)
	w.run("", 0, []string{"import", "--overwrite", "--dry-run"}, "/id.k8s.io updated: from cluster.clusterset.k8s.io (dry run)", "/clusterset.k8s.io created (dry run)", "/region updated (dry run)")
	w.run("", 0, []string{"import", "--overwrite"}, "/id.k8s.io updated", "/clusterset.k8s.io created", "/region updated", "Warning: id.k8s.io should live unchanged as long as the cluster")
	got, _ = w.all(claimResource)
	wantObjects(t, "claims after --overwrite", map[string]taken{"id.k8s.io": {Value: "cluster-1", Labels: map[string]string{"mine": "x"}}, "clusterset.k8s.io": {Value: "fleet-1"}, "region": {Value: "eu", Labels: map[string]string{"a": "1", "b": "2", "c": "3"}}}, got)

	// A claim that is going is not taken for one that is there.
	if err := w.Dynamic.Resource(claimResource).Delete(t.Context(), "region", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.run("", 1, importArgs, "/region refused: it is being deleted; repeat this when it is gone", "/id.k8s.io unchanged")
	patch("region", `{"metadata":{"finalizers":null}}`)
	w.run("", 0, importArgs, "/region created")
}

// TestClaimsOfAUserWithoutTheVerbReserve imports what another cluster may have and this user may not.
func TestClaimsOfAUserWithoutTheVerbReserve(t *testing.T) {
	t.Parallel()
	w := newClaimsWorld(t, func(o *standalone.Options) {
		o.ControlPlane.Authorizers = append(o.ControlPlane.Authorizers, authorizer.AuthorizerFunc(
			func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetUser().GetName() == "importer" && a.GetVerb() != "reserve" {
					return authorizer.DecisionAllow, "all but that", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			}))
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := pki.WriteKubeconfig(kubeconfig, w.Config.Host, filepath.Join(w.DataDir(), "pki", "serving-ca.crt"), w.user(t, "importer")); err != nil {
		t.Fatal(err)
	}
	w.kubeconfig = kubeconfig
	property := func(name, value string) string {
		return "---\napiVersion: about.k8s.io/v1alpha1\nkind: ClusterProperty\nmetadata: {name: " + name + "}\nspec: {value: \"" + value + "\"}\n"
	}
	file := property("networking.k8s.io", "x") + property("tool.sigs.k8s.io", "x") + property("cluster.clusterset.k8s.io", "eu.cluster-1") + property("clusterset.k8s.io", "fleet") +
		property("Not_A_Name", "x") + property("id.k8s.io", "cluster-1") + property("mine.example.com", "x") + property("long", strings.Repeat("x", 131073)) +
		"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: stray}\n"
	w.run(file, 1, []string{"import", "-f", "-"},
		"/mine.example.com created\n",
		"/networking.k8s.io refused: ", "names ending in .k8s.io or .kubernetes.io are reserved for the Kubernetes project; choose a name under a domain of yours, or ask an administrator for the verb \"reserve\"",
		"/tool.sigs.k8s.io refused: ",
		"/id.k8s.io refused: from cluster.clusterset.k8s.io: spec.value: Invalid value: \"eu.cluster-1\": is not a cluster id: must not contain dots",
		"/clusterset.k8s.io refused: cluster.clusterset.k8s.io was refused",
		"/id.k8s.io refused: a ClusterClaim of this name is the id of the cluster, which is called cluster.clusterset.k8s.io",
		"/Not_A_Name refused: metadata.name: ", "/long refused: spec.value: Too long: must be at most 131072 bytes; this value has 131073",
		"/stray refused: it is a ConfigMap and no ClusterProperty.about.k8s.io", "annex: 8 of 9 ClusterClaims were refused")
	got, _ := w.all(claimResource)
	wantObjects(t, "claims", map[string]taken{"mine.example.com": {Value: "x"}}, got)

	// Without a cluster what can be told without one is.
	w.kubeconfig = filepath.Join(t.TempDir(), "none")
	names := w.run(file, 1, []string{"import", "-f", "-", "-o", "name"}, "clusterset.k8s.io refused: ", "annex: 6 of 9 ClusterClaims were refused")
	if want := "clusterclaim.multicluster.k8s.io/mine.example.com\nclusterclaim.multicluster.k8s.io/networking.k8s.io\nclusterclaim.multicluster.k8s.io/tool.sigs.k8s.io\n"; names != want {
		t.Errorf("the names are:\n%s", names)
	}
	w.run(file, 1, []string{"import", "-f", "-"}, "annex: no cluster is configured")
}
