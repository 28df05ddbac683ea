// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/server/certificates/pki"
)

// The treasure is what the callers below may not see: a Secret, and a claim.
const (
	treasure       = "dHJlYXN1cmUtb2YtdGhlLXZhdWx0" // as JSON has it
	secretTreasure = "/api/v1/namespaces/vault/secrets/treasure"
	claimTreasure  = claimsPath + "/treasure.example.com"
)

// open are paths that everybody with an identity may get, or that mallory may.
var open = []string{
	"/healthz", "/livez", "/readyz", "/version", "/api", "/apis", "/openapi/v2", "/openapi/v3", "/healthz/ping", "/.well-known/openid-configuration",
	"/apis/multicluster.k8s.io/v1alpha1", "/api/v1", "/api/v1/namespaces/mine/configmaps", "/api/v1/namespaces/mine/configmaps/mine", claimsPath + "/mine.example.com",
}

// ups are ways to write "..".
var ups = []string{"..", "%2e%2e", ".%2E", "%252e%252e", "..;", "..;a=b", "..%00", "...", "..%2f", "..%5c", `..\`, "..%20", "%c0%ae%c0%ae"}

// detours are ways to a path that some servers take and others do not.
func detours(to string) []string {
	var all []string
	for _, from := range open {
		for _, up := range ups {
			levels := strings.Count(from, "/")
			all = append(all, from+strings.Repeat("/"+up, levels)+to)
		}
		all = append(all, from+to, from+"/"+to, from+"?"+to, from+";"+to, from+"%3f"+to, from+"%00"+to, from+"#"+to)
	}
	all = append(all,
		"/"+to, "//"+to, "/."+to, "/%2e"+to, `\`+to, to+"/", to+"//", to+"/.", to+"/..", to+"/../treasure", to+"%00", to+";", to+";/healthz", to+"?/healthz",
		to+"#", to+"%20", to+".", to+"%2f", to+"%2fstatus/..", to+"/healthz", strings.ToUpper(to), strings.ReplaceAll(to, "/", "//"), strings.ReplaceAll(to, "/", "/./"),
		strings.ReplaceAll(to, "/", `\`), "/"+strings.ReplaceAll(to[1:], "/", "%2f"), "/"+strings.ReplaceAll(to[1:], "/", "%252f"), strings.ReplaceAll(to, "s", "%73"),
		strings.ReplaceAll(to, "v1", "v1/watch")+"?timeoutSeconds=1", strings.ReplaceAll(to, "v1", "v1/proxy"), strings.ReplaceAll(to, "v1", "v1/watch/.."), "/healthzfoo/.."+to, "/healthz.."+to,
		strings.Replace(to, "k8s.io", "k8s.io.evil", 1), strings.Replace(to, "v1", "v1.evil", 1), strings.Replace(to, "/v1", "/v1%00", 1), strings.Replace(to, "vault", "mine/../vault", 1),
		strings.Replace(to, "vault", "mine%2f..%2fvault", 1), strings.Replace(to, "vault", "mine/vault", 1), strings.Replace(to, "namespaces/vault/", "", 1),
		to+"?watch=true&timeoutSeconds=1", to+"?as=annex-admin", to+"?user=annex-admin&group=system:masters", "http://127.0.0.1"+to, "https://localhost"+to, "*", "*"+to,
		"/"+strings.Repeat("a/", 5000)+strings.Repeat("../", 5000)+to, "/healthz/"+strings.Repeat("../", 20000)+to, "/healthz?"+strings.Repeat("a=b&", 20000)+to)
	list := to[:strings.LastIndex(to, "/")]
	mine, all2 := "?fieldSelector=metadata.name%3Dmine.example.com", "fieldSelector=metadata.name%3Dtreasure.example.com"
	return append(all, list, list+"/", list+"?limit=500", list+"?watch=1&timeoutSeconds=1&resourceVersion=0", list+mine, list+mine+"&"+all2, list+"?"+all2+"&"+mine[1:],
		list+mine+";"+all2, list+mine+"%2Cmetadata.name!%3Dx", list+mine+"&labelSelector=", list+"?FieldSelector="+mine[len("?fieldSelector="):], list+mine+"%00", list+"?fieldSelector=metadata.name%3D",
		list+"?fieldSelector=metadata.name!%3Dmine.example.com", list+"/mine.example.com/../treasure.example.com", list+"/mine.example.com%2f..%2ftreasure.example.com",
		list+"/mine.example.com/status/../../treasure.example.com", list+"/mine.example.com?name=treasure.example.com", list+"/mine%2eexample%2ecom/..%2ftreasure.example.com")
}

// TestPathConfusion has callers who may see little go to what they may not see by paths that one part of a server could take for something
// else than another part does. What is authorized has to be what is served, also where the control plane passes a request on.
func TestPathConfusion(t *testing.T) {
	t.Parallel()
	_, kube, claims := plain.admin(t)
	for _, name := range []string{"vault", "mine"} {
		if _, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "treasure"}, Data: map[string][]byte{"gold": []byte("treasure-of-the-vault")}}
	if _, err := kube.CoreV1().Secrets("vault").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.CoreV1().ConfigMaps("mine").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"treasure.example.com": treasure, "mine.example.com": "mine"} {
		claim := &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterClaimSpec{Value: value}}
		if _, err := claims.MulticlusterV1alpha1().ClusterClaims().Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	read := []string{"get", "list", "watch"}
	allow(t, plain, "mallory",
		rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz/*", "/healthz", "/metrics"}},
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"mine"}},
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{"multicluster.k8s.io", "multicluster.k8s.io.evil"}, Resources: []string{"clusterclaims"}, ResourceNames: []string{"mine.example.com"}})

	for door, address := range plain.doors() {
		targets := []string{claimTreasure}
		if address == plain.host {
			targets = append(targets, secretTreasure)
		}
		for _, to := range targets {
			t.Run(door+to, func(t *testing.T) {
				t.Parallel()
				admin := newSession(t, address, plain.tls(t, plain.user(t, "annex-admin", "system:masters")))
				reached := map[string]bool{}
				paths := detours(to)
				for _, path := range append(paths, to) {
					if strings.Contains(admin.get(t, path, "").body, treasure) {
						reached[path] = true
					}
				}
				if !reached[to] || !reached[strings.ReplaceAll(to, "s", "%73")] {
					t.Fatalf("an administrator reaches it by %v alone, so this test tests nothing", reached)
				}
				t.Logf("%d of %d ways lead there", len(reached), len(paths))
				for who, pair := range map[string]pki.Pair{"mallory": plain.user(t, "mallory"), "nobody": {}} {
					s := newSession(t, address, plain.tls(t, pair))
					for _, path := range append(slices.Clone(paths), to) {
						got := s.get(t, path, "")
						if strings.Contains(got.body, treasure) {
							t.Errorf("%s by %s: %s", who, shortened(path), shortened(got.body))
						}
						if reached[path] && got.code != http.StatusForbidden && got.code != http.StatusUnauthorized {
							t.Errorf("%s by %s: got %d %s, want a refusal", who, shortened(path), got.code, shortened(got.body))
						}
						if got.code >= http.StatusInternalServerError || who == "nobody" && got.code == http.StatusOK && !isHealth(path) {
							t.Errorf("%s by %s: got %d %s", who, shortened(path), got.code, shortened(got.body))
						}
					}
				}
			})
		}
	}
	t.Run("what is mine can be had", func(t *testing.T) {
		t.Parallel()
		for door, address := range plain.doors() {
			s := newSession(t, address, plain.tls(t, plain.user(t, "mallory")))
			for _, path := range []string{claimsPath + "/mine.example.com", claimsPath + "?fieldSelector=metadata.name%3Dmine.example.com"} {
				if got := s.get(t, path, ""); got.code != http.StatusOK {
					t.Errorf("%s: %s: got %d", door, path, got.code)
				}
			}
		}
	})
}

// isHealth tells whether a target is one of those that everybody may get, as it is written.
func isHealth(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	path, _, _ = strings.Cut(path, "#")
	return slices.Contains([]string{"/healthz", "/livez", "/readyz"}, path)
}
